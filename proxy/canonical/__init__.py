"""What a conversation is, in no one's wire format."""
