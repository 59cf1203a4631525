"""Where NaN and infinity come from: programs watched as they run, and evaluated once more where one gave them."""
