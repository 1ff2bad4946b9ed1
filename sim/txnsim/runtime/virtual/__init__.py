"""Virtual time: a loop whose clock jumps, links in memory, and libraries that are lent both."""
