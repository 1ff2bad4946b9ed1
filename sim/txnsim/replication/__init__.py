"""How replicas follow, and the effects: watermarks, commits, changes of the ISR."""
