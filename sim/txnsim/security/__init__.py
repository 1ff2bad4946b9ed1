"""Identity and rights of clients: principals, SASL mechanisms, ACLs, SCRAM credentials.

Decisions only. Where tokens come from and go to is ``server.sasl``; which check each API makes is
``api.authorization``; ACLs and credentials are kept in the ``ClusterImage``. Kafka's counterparts:
org.apache.kafka.common.security, metadata.authorizer.
"""
