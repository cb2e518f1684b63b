"""What a user would pick instead of relet, each driven as a process of its own."""
