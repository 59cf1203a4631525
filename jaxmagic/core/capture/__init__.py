"""What JAX traced, lowered, compiled and ran, and why."""
