"""The replicas that a broker hosts: their leaders, their followers and the followers' positions.
Pure.
"""
