"""What variables hold beside each line: frames watched, values described."""
