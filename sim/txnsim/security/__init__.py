"""Identity and rights of clients. Decisions only.

- ``principals``, ``principal_mapping``: who somebody is, by name and by certificate.
- ``sasl``, ``login``: mechanisms, token by token, from both sides; ``jaas``: their syntax.
- ``scram``: credentials, and how they are altered.
- ``acls``, ``authorizer``: what is allowed, and whether it is.
- ``options``: of a cluster.

Where tokens come from and go to is ``server._sasl``; which check each API makes is
``api.authorization``; ACLs and credentials are kept in the ``ClusterImage``. Kafka's counterparts:
org.apache.kafka.common.security, metadata.authorizer.
"""
