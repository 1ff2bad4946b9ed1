"""Plays stories on real brokers: ``comparison`` says which stories can't be played there, adapts
the others, and plays them on the simulator and on real brokers.
"""
