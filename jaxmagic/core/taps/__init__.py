"""Named values out of running programs."""
