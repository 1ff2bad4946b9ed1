"""How replicas follow, and what follows from that: watermarks, commits, changes of the ISR."""
