"""Authentication and authorisation of clients. Decisions only.

- ``principals``, ``principal_mapping``: the name of a user, and how a certificate gives it.
- ``sasl``, ``login``: SASL mechanisms, token by token, of the broker and of the client; ``jaas``:
  the syntax of their configs.
- ``scram``: SCRAM credentials, and how they are altered.
- ``acls``, ``authorizer``: the ACLs, and whether they allow an operation.
- ``options``: the security options of a cluster.

``server._sasl`` receives and sends the tokens; ``api.authorization`` says which check each API
makes; the ``ClusterImage`` holds ACLs and credentials. Kafka's counterparts:
org.apache.kafka.common.security, metadata.authorizer.
"""
