"""What a broker knows of the partitions that it hosts: who leads, who follows, how far. Pure."""
