"""The translation layer, without a socket."""
