"""Handlers about users: SASL, SCRAM credentials, delegation tokens, ACLs."""
