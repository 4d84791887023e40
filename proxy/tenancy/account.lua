-- One tenant's account in the shared store: what memory.py does, in one step that nothing comes between.
-- KEYS: the account (a hash), its open leases, the streams among them (sorted sets: id, by when they end), and leases that
-- were undone before they were taken (the same, by when they are forgotten).
-- ARGV: what to do, the time (empty: the server's own), then as each function below reads them. Empty is no limit.
-- Numbers go in and out as text with all their digits, since a reply would cut them to whole ones; an answer is one
-- text with spaces between, which takes the asker least time to read.

local account, leases, streams, undone = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local UNDONE = 600 -- seconds in which a request that was given up may still arrive
local KEPT = 86400 -- seconds that sets of leases outlive their last change, and an account its last window

local MOST = 2 ^ 53 -- that is counted to: beyond, numbers here are no whole ones any more

local function text(number)
  return string.format('%.17g', number)
end

local function whole(number)
  return string.format('%.0f', math.min(number, MOST))
end

local now = tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) + tonumber(time[2]) / 1000000
end

-- How many leases ended without having been settled: they stay charged as they were reserved.
local function reap()
  redis.call('ZREMRANGEBYSCORE', streams, '-inf', text(now))
  return redis.call('ZREMRANGEBYSCORE', leases, '-inf', text(now))
end

-- Tokens in the bucket.
local function drained(used, at, rate)
  return math.max(used - math.max(now - at, 0) * rate, 0)
end

-- What was used in the window of a calendar that holds the time, which begins anew if the window kept is over.
-- The caller knows calendars and we know the time: it says when the window before its own, its own and the next end.
local function window(name, first, second, third)
  local stop = second
  if now < first then
    stop = first
  elseif now >= second then
    stop = third
  end
  if stop <= now then -- the caller's clock is far behind
    stop = now + third - second
  end
  local kept = redis.call('HMGET', account, name, name .. '_end', name .. '_since')
  local used, ends, since = tonumber(kept[1]), tonumber(kept[2]), tonumber(kept[3])
  if not ends or now >= ends then
    used, since = 0, now
    redis.call('HSET', account, name, 0, name .. '_end', text(stop), name .. '_since', text(now))
  elseif ends ~= stop then
    redis.call('HSET', account, name .. '_end', text(stop))
  end
  return { used = used, stop = stop, since = since }
end

-- ARGV[3..]: id, tokens, cost, 1 for a stream, seconds it lasts at most, seconds until a refresh is due;
-- interval of requests, how far ahead of it one may be, and be afterwards; capacity and rate of tokens; most open, most streams;
-- most requests a day, most tokens a day, ends of days; budget, 1 if it is hard, ends of its periods.
-- An empty id takes nothing and only reads.
local function reserve()
  local id, tokens, cost, stream = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6] == '1'
  local lasts, life = tonumber(ARGV[7]), tonumber(ARGV[8])
  local interval, slack, most_ahead = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
  local capacity, rate = tonumber(ARGV[12]), tonumber(ARGV[13])
  local most_open, most_streams = tonumber(ARGV[14]), tonumber(ARGV[15])
  local rpd_limit, tpd_limit, budget_limit = tonumber(ARGV[16]), tonumber(ARGV[17]), tonumber(ARGV[21])
  local hard = ARGV[22] == '1'

  local none = { used = 0, stop = now, since = 0 }
  local rpd, tpd, budget = none, none, none
  local days = { tonumber(ARGV[18]), tonumber(ARGV[19]), tonumber(ARGV[20]) }
  if rpd_limit then
    rpd = window('rpd', days[1], days[2], days[3])
  end
  if tpd_limit then
    tpd = window('tpd', days[1], days[2], days[3])
  end
  if budget_limit then
    budget = window('budget', tonumber(ARGV[23]), tonumber(ARGV[24]), tonumber(ARGV[25]))
  end
  local expired = reap()

  local kept = redis.call('HMGET', account, 'turn', 'tokens', 'at')
  local ahead, used = 0, 0
  if interval then
    local turn = tonumber(kept[1]) or 0
    if turn - now > most_ahead then -- by a slower pace that held before
      turn = now + most_ahead
      redis.call('HSET', account, 'turn', text(turn))
    end
    ahead = math.max(turn - now, 0)
  end
  if rate then
    local at = tonumber(kept[3]) or 0
    if at > now then -- by the clock of another server, which had the store before
      redis.call('HSET', account, 'at', text(now))
    end
    used = drained(tonumber(kept[2]) or 0, at, rate)
  end
  local open, streaming = redis.call('ZCARD', leases), redis.call('ZCARD', streams)

  local reason, wait = '', 0
  if redis.call('ZREM', undone, id) == 1 then
    reason = 'overloaded' -- nobody waits for it any more
  elseif interval and ahead > slack then
    reason, wait = 'rpm', ahead - slack
  elseif rpd_limit and rpd.used >= rpd_limit then
    reason = 'rpd'
  elseif (most_open and open >= most_open) or (stream and most_streams and streaming >= most_streams) then
    reason = 'concurrency'
  else
    if rate and used > 0 then
      local excess = used
      if tokens <= capacity then
        excess = used + tokens - capacity
      end
      if excess > 0 then
        reason, wait = 'tpm', excess / rate
      end
    end
    if reason == '' and tpd_limit and tpd.used > 0 and tpd.used + tokens > tpd_limit then
      reason = 'tpd'
    elseif reason == '' and hard and budget.used >= budget_limit then
      reason = 'budget'
    end
  end

  if reason == '' and id ~= '' then
    if interval then
      ahead = ahead + interval
      redis.call('HSET', account, 'turn', text(now + ahead))
    end
    if rate then
      used = used + tokens
      redis.call('HSET', account, 'tokens', text(used), 'at', text(now))
    end
    if rpd_limit then
      rpd.used = redis.call('HINCRBY', account, 'rpd', 1)
    end
    if tpd_limit then
      tpd.used = redis.call('HINCRBY', account, 'tpd', whole(tokens))
    end
    if budget_limit then
      budget.used = redis.call('HINCRBY', account, 'budget', whole(cost))
    end
    redis.call('ZADD', leases, text(now + math.min(lasts, life)), id)
    redis.call('EXPIRE', leases, KEPT)
    open = open + 1
    if stream then
      streaming = streaming + 1
      redis.call('ZADD', streams, text(now + math.min(lasts, life)), id)
      redis.call('EXPIRE', streams, KEPT)
    end
  end
  local longest = math.max(rpd.stop - now, tpd.stop - now, budget.stop - now, ahead, rate and used / rate or 0)
  redis.call('EXPIRE', account, math.ceil(longest) + KEPT)
  return table.concat({
    reason == '' and '-' or reason,
    text(now), text(wait), text(ahead), text(used),
    text(rpd.stop), text(tpd.stop), text(budget.stop), text(tpd.since), text(budget.since),
    expired, whole(rpd.used), whole(tpd.used), whole(budget.used), open, streaming,
  }, ' ')
end

-- ARGV[3..]: id; used tokens and cost less the reserved ones; rate of tokens; since when the day's tokens and the budget
-- were counted that the lease was taken from. Empty: not counted. `*`: as they are now, for what was never answered.
-- A lease that is gone was settled before, or reaped, or lost with the store's memory: then nothing is to be done. But
-- what was never answered may be still to come, on another connection: it must not be taken then.
local function settle()
  local id, tokens, cost, rate = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
  redis.call('ZREM', streams, id)
  if redis.call('ZREM', leases, id) == 0 then
    if ARGV[7] == '*' then
      redis.call('ZREMRANGEBYSCORE', undone, '-inf', text(now))
      redis.call('ZADD', undone, text(now + UNDONE), id)
      redis.call('EXPIRE', undone, UNDONE)
    end
    return 0
  end
  local kept = redis.call('HMGET', account, 'tokens', 'at', 'tpd', 'tpd_since', 'budget', 'budget_since')
  if rate and kept[1] then
    local used = math.min(math.max(drained(tonumber(kept[1]), tonumber(kept[2]), rate) + tokens, 0), MOST)
    redis.call('HSET', account, 'tokens', text(used), 'at', text(now))
    if rate > 0 then
      redis.call('EXPIRE', account, math.ceil(used / rate) + KEPT, 'GT')
    end
  end
  local function change(name, used, since, expected, difference)
    if since and expected ~= '' and (expected == '*' or tonumber(expected) == tonumber(since)) then
      redis.call('HSET', account, name, whole(math.max(tonumber(used) + difference, 0)))
    end
  end
  local requests = tonumber(redis.call('HGET', account, 'rpd'))
  if ARGV[7] == '*' and requests and requests > 0 then -- it has never become a request
    redis.call('HINCRBY', account, 'rpd', -1)
  end
  change('tpd', kept[3], kept[4], ARGV[7], tokens)
  change('budget', kept[5], kept[6], ARGV[8], cost)
  return 1
end

-- ARGV[3..]: seconds until the next refresh is due; then of each lease its id and when it can't be open any more.
-- What is not there any more does not come back.
local function refresh()
  local life = tonumber(ARGV[3])
  local expired = reap()
  for i = 4, #ARGV, 2 do
    local ends = text(math.min(now + life, tonumber(ARGV[i + 1])))
    redis.call('ZADD', leases, 'XX', ends, ARGV[i])
    redis.call('ZADD', streams, 'XX', ends, ARGV[i])
  end
  redis.call('EXPIRE', leases, KEPT)
  redis.call('EXPIRE', streams, KEPT)
  return expired
end

local act = { reserve = reserve, settle = settle, refresh = refresh }
return act[ARGV[1]]()
