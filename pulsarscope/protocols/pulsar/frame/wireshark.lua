-- Dissector of the Apache Pulsar binary protocol for Wireshark and tshark: made by proto/generate.py of pulsarscope.
-- All commands and their fields, as in filters of pulsarscope with "pulsar." before: pulsar.send.sequence_id == 3.

-- Fields of messages by number: name, type, type of its message or enumeration, repeated, required.
local messages = {
  ["Schema"] = {
    [1] = {"name", "string", false, false, true},
    [3] = {"schema_data", "bytes", false, false, true},
    [4] = {"type", "enum", "Schema.Type", false, true},
    [5] = {"properties", "message", "KeyValue", true, false},
  },
  ["MessageIdData"] = {
    [1] = {"ledgerId", "uint64", false, false, true},
    [2] = {"entryId", "uint64", false, false, true},
    [3] = {"partition", "int32", false, false, false},
    [4] = {"batch_index", "int32", false, false, false},
    [5] = {"ack_set", "int64", false, true, false},
    [6] = {"batch_size", "int32", false, false, false},
    [7] = {"first_chunk_message_id", "message", "MessageIdData", false, false},
  },
  ["KeyValue"] = {
    [1] = {"key", "string", false, false, true},
    [2] = {"value", "string", false, false, true},
  },
  ["KeyLongValue"] = {
    [1] = {"key", "string", false, false, true},
    [2] = {"value", "uint64", false, false, true},
  },
  ["IntRange"] = {
    [1] = {"start", "int32", false, false, true},
    [2] = {"end", "int32", false, false, true},
  },
  ["EncryptionKeys"] = {
    [1] = {"key", "string", false, false, true},
    [2] = {"value", "bytes", false, false, true},
    [3] = {"metadata", "message", "KeyValue", true, false},
  },
  ["MessageMetadata"] = {
    [1] = {"producer_name", "string", false, false, true},
    [2] = {"sequence_id", "uint64", false, false, true},
    [3] = {"publish_time", "uint64", false, false, true},
    [4] = {"properties", "message", "KeyValue", true, false},
    [5] = {"replicated_from", "string", false, false, false},
    [6] = {"partition_key", "string", false, false, false},
    [7] = {"replicate_to", "string", false, true, false},
    [8] = {"compression", "enum", "CompressionType", false, false},
    [9] = {"uncompressed_size", "uint32", false, false, false},
    [11] = {"num_messages_in_batch", "int32", false, false, false},
    [12] = {"event_time", "uint64", false, false, false},
    [13] = {"encryption_keys", "message", "EncryptionKeys", true, false},
    [14] = {"encryption_algo", "string", false, false, false},
    [15] = {"encryption_param", "bytes", false, false, false},
    [16] = {"schema_version", "bytes", false, false, false},
    [17] = {"partition_key_b64_encoded", "bool", false, false, false},
    [18] = {"ordering_key", "bytes", false, false, false},
    [19] = {"deliver_at_time", "int64", false, false, false},
    [20] = {"marker_type", "int32", false, false, false},
    [22] = {"txnid_least_bits", "uint64", false, false, false},
    [23] = {"txnid_most_bits", "uint64", false, false, false},
    [24] = {"highest_sequence_id", "uint64", false, false, false},
    [25] = {"null_value", "bool", false, false, false},
    [26] = {"uuid", "string", false, false, false},
    [27] = {"num_chunks_from_msg", "int32", false, false, false},
    [28] = {"total_chunk_msg_size", "int32", false, false, false},
    [29] = {"chunk_id", "int32", false, false, false},
    [30] = {"null_partition_key", "bool", false, false, false},
    [31] = {"compacted_batch_indexes", "int32", false, true, false},
    [32] = {"schema_id", "bytes", false, false, false},
    [33] = {"entry_hash_min", "uint32", false, false, false},
    [34] = {"entry_hash_max", "uint32", false, false, false},
  },
  ["SingleMessageMetadata"] = {
    [1] = {"properties", "message", "KeyValue", true, false},
    [2] = {"partition_key", "string", false, false, false},
    [3] = {"payload_size", "int32", false, false, true},
    [4] = {"compacted_out", "bool", false, false, false},
    [5] = {"event_time", "uint64", false, false, false},
    [6] = {"partition_key_b64_encoded", "bool", false, false, false},
    [7] = {"ordering_key", "bytes", false, false, false},
    [8] = {"sequence_id", "uint64", false, false, false},
    [9] = {"null_value", "bool", false, false, false},
    [10] = {"null_partition_key", "bool", false, false, false},
  },
  ["BrokerEntryMetadata"] = {
    [1] = {"broker_timestamp", "uint64", false, false, false},
    [2] = {"index", "uint64", false, false, false},
  },
  ["CommandConnect"] = {
    [1] = {"client_version", "string", false, false, true},
    [2] = {"auth_method", "enum", "AuthMethod", false, false},
    [5] = {"auth_method_name", "string", false, false, false},
    [3] = {"auth_data", "bytes", false, false, false},
    [4] = {"protocol_version", "int32", false, false, false},
    [6] = {"proxy_to_broker_url", "string", false, false, false},
    [7] = {"original_principal", "string", false, false, false},
    [8] = {"original_auth_data", "string", false, false, false},
    [9] = {"original_auth_method", "string", false, false, false},
    [10] = {"feature_flags", "message", "FeatureFlags", false, false},
    [11] = {"proxy_version", "string", false, false, false},
  },
  ["FeatureFlags"] = {
    [1] = {"supports_auth_refresh", "bool", false, false, false},
    [2] = {"supports_broker_entry_metadata", "bool", false, false, false},
    [3] = {"supports_partial_producer", "bool", false, false, false},
    [4] = {"supports_topic_watchers", "bool", false, false, false},
    [5] = {"supports_get_partitioned_metadata_without_auto_creation", "bool", false, false, false},
    [6] = {"supports_repl_dedup_by_lid_and_eid", "bool", false, false, false},
    [7] = {"supports_topic_watcher_reconcile", "bool", false, false, false},
    [8] = {"supports_scalable_topics", "bool", false, false, false},
    [9] = {"supports_tc_metadata_discovery", "bool", false, false, false},
  },
  ["CommandConnected"] = {
    [1] = {"server_version", "string", false, false, true},
    [2] = {"protocol_version", "int32", false, false, false},
    [3] = {"max_message_size", "int32", false, false, false},
    [4] = {"feature_flags", "message", "FeatureFlags", false, false},
  },
  ["CommandAuthResponse"] = {
    [1] = {"client_version", "string", false, false, false},
    [2] = {"response", "message", "AuthData", false, false},
    [3] = {"protocol_version", "int32", false, false, false},
  },
  ["CommandAuthChallenge"] = {
    [1] = {"server_version", "string", false, false, false},
    [2] = {"challenge", "message", "AuthData", false, false},
    [3] = {"protocol_version", "int32", false, false, false},
  },
  ["AuthData"] = {
    [1] = {"auth_method_name", "string", false, false, false},
    [2] = {"auth_data", "bytes", false, false, false},
  },
  ["KeySharedMeta"] = {
    [1] = {"keySharedMode", "enum", "KeySharedMode", false, true},
    [3] = {"hashRanges", "message", "IntRange", true, false},
    [4] = {"allowOutOfOrderDelivery", "bool", false, false, false},
  },
  ["CommandSubscribe"] = {
    [1] = {"topic", "string", false, false, true},
    [2] = {"subscription", "string", false, false, true},
    [3] = {"subType", "enum", "CommandSubscribe.SubType", false, true},
    [4] = {"consumer_id", "uint64", false, false, true},
    [5] = {"request_id", "uint64", false, false, true},
    [6] = {"consumer_name", "string", false, false, false},
    [7] = {"priority_level", "int32", false, false, false},
    [8] = {"durable", "bool", false, false, false},
    [9] = {"start_message_id", "message", "MessageIdData", false, false},
    [10] = {"metadata", "message", "KeyValue", true, false},
    [11] = {"read_compacted", "bool", false, false, false},
    [12] = {"schema", "message", "Schema", false, false},
    [13] = {"initialPosition", "enum", "CommandSubscribe.InitialPosition", false, false},
    [14] = {"replicate_subscription_state", "bool", false, false, false},
    [15] = {"force_topic_creation", "bool", false, false, false},
    [16] = {"start_message_rollback_duration_sec", "uint64", false, false, false},
    [17] = {"keySharedMeta", "message", "KeySharedMeta", false, false},
    [18] = {"subscription_properties", "message", "KeyValue", true, false},
    [19] = {"consumer_epoch", "uint64", false, false, false},
  },
  ["CommandPartitionedTopicMetadata"] = {
    [1] = {"topic", "string", false, false, true},
    [2] = {"request_id", "uint64", false, false, true},
    [3] = {"original_principal", "string", false, false, false},
    [4] = {"original_auth_data", "string", false, false, false},
    [5] = {"original_auth_method", "string", false, false, false},
    [6] = {"metadata_auto_creation_enabled", "bool", false, false, false},
  },
  ["CommandPartitionedTopicMetadataResponse"] = {
    [1] = {"partitions", "uint32", false, false, false},
    [2] = {"request_id", "uint64", false, false, true},
    [3] = {"response", "enum", "CommandPartitionedTopicMetadataResponse.LookupType", false, false},
    [4] = {"error", "enum", "ServerError", false, false},
    [5] = {"message", "string", false, false, false},
  },
  ["CommandLookupTopic"] = {
    [1] = {"topic", "string", false, false, true},
    [2] = {"request_id", "uint64", false, false, true},
    [3] = {"authoritative", "bool", false, false, false},
    [4] = {"original_principal", "string", false, false, false},
    [5] = {"original_auth_data", "string", false, false, false},
    [6] = {"original_auth_method", "string", false, false, false},
    [7] = {"advertised_listener_name", "string", false, false, false},
    [8] = {"properties", "message", "KeyValue", true, false},
  },
  ["CommandLookupTopicResponse"] = {
    [1] = {"brokerServiceUrl", "string", false, false, false},
    [2] = {"brokerServiceUrlTls", "string", false, false, false},
    [3] = {"response", "enum", "CommandLookupTopicResponse.LookupType", false, false},
    [4] = {"request_id", "uint64", false, false, true},
    [5] = {"authoritative", "bool", false, false, false},
    [6] = {"error", "enum", "ServerError", false, false},
    [7] = {"message", "string", false, false, false},
    [8] = {"proxy_through_service_url", "bool", false, false, false},
  },
  ["CommandProducer"] = {
    [1] = {"topic", "string", false, false, true},
    [2] = {"producer_id", "uint64", false, false, true},
    [3] = {"request_id", "uint64", false, false, true},
    [4] = {"producer_name", "string", false, false, false},
    [5] = {"encrypted", "bool", false, false, false},
    [6] = {"metadata", "message", "KeyValue", true, false},
    [7] = {"schema", "message", "Schema", false, false},
    [8] = {"epoch", "uint64", false, false, false},
    [9] = {"user_provided_producer_name", "bool", false, false, false},
    [10] = {"producer_access_mode", "enum", "ProducerAccessMode", false, false},
    [11] = {"topic_epoch", "uint64", false, false, false},
    [12] = {"txn_enabled", "bool", false, false, false},
    [13] = {"initial_subscription_name", "string", false, false, false},
  },
  ["CommandSend"] = {
    [1] = {"producer_id", "uint64", false, false, true},
    [2] = {"sequence_id", "uint64", false, false, true},
    [3] = {"num_messages", "int32", false, false, false},
    [4] = {"txnid_least_bits", "uint64", false, false, false},
    [5] = {"txnid_most_bits", "uint64", false, false, false},
    [6] = {"highest_sequence_id", "uint64", false, false, false},
    [7] = {"is_chunk", "bool", false, false, false},
    [8] = {"marker", "bool", false, false, false},
    [9] = {"message_id", "message", "MessageIdData", false, false},
  },
  ["CommandSendReceipt"] = {
    [1] = {"producer_id", "uint64", false, false, true},
    [2] = {"sequence_id", "uint64", false, false, true},
    [3] = {"message_id", "message", "MessageIdData", false, false},
    [4] = {"highest_sequence_id", "uint64", false, false, false},
  },
  ["CommandSendError"] = {
    [1] = {"producer_id", "uint64", false, false, true},
    [2] = {"sequence_id", "uint64", false, false, true},
    [3] = {"error", "enum", "ServerError", false, true},
    [4] = {"message", "string", false, false, true},
  },
  ["CommandMessage"] = {
    [1] = {"consumer_id", "uint64", false, false, true},
    [2] = {"message_id", "message", "MessageIdData", false, true},
    [3] = {"redelivery_count", "uint32", false, false, false},
    [4] = {"ack_set", "int64", false, true, false},
    [5] = {"consumer_epoch", "uint64", false, false, false},
  },
  ["CommandAck"] = {
    [1] = {"consumer_id", "uint64", false, false, true},
    [2] = {"ack_type", "enum", "CommandAck.AckType", false, true},
    [3] = {"message_id", "message", "MessageIdData", true, false},
    [4] = {"validation_error", "enum", "CommandAck.ValidationError", false, false},
    [5] = {"properties", "message", "KeyLongValue", true, false},
    [6] = {"txnid_least_bits", "uint64", false, false, false},
    [7] = {"txnid_most_bits", "uint64", false, false, false},
    [8] = {"request_id", "uint64", false, false, false},
  },
  ["CommandAckResponse"] = {
    [1] = {"consumer_id", "uint64", false, false, true},
    [2] = {"txnid_least_bits", "uint64", false, false, false},
    [3] = {"txnid_most_bits", "uint64", false, false, false},
    [4] = {"error", "enum", "ServerError", false, false},
    [5] = {"message", "string", false, false, false},
    [6] = {"request_id", "uint64", false, false, false},
  },
  ["CommandActiveConsumerChange"] = {
    [1] = {"consumer_id", "uint64", false, false, true},
    [2] = {"is_active", "bool", false, false, false},
  },
  ["CommandFlow"] = {
    [1] = {"consumer_id", "uint64", false, false, true},
    [2] = {"messagePermits", "uint32", false, false, true},
  },
  ["CommandUnsubscribe"] = {
    [1] = {"consumer_id", "uint64", false, false, true},
    [2] = {"request_id", "uint64", false, false, true},
    [3] = {"force", "bool", false, false, false},
  },
  ["CommandSeek"] = {
    [1] = {"consumer_id", "uint64", false, false, true},
    [2] = {"request_id", "uint64", false, false, true},
    [3] = {"message_id", "message", "MessageIdData", false, false},
    [4] = {"message_publish_time", "uint64", false, false, false},
  },
  ["CommandReachedEndOfTopic"] = {
    [1] = {"consumer_id", "uint64", false, false, true},
  },
  ["CommandTopicMigrated"] = {
    [1] = {"resource_id", "uint64", false, false, true},
    [2] = {"resource_type", "enum", "CommandTopicMigrated.ResourceType", false, true},
    [3] = {"brokerServiceUrl", "string", false, false, false},
    [4] = {"brokerServiceUrlTls", "string", false, false, false},
  },
  ["CommandCloseProducer"] = {
    [1] = {"producer_id", "uint64", false, false, true},
    [2] = {"request_id", "uint64", false, false, true},
    [3] = {"assignedBrokerServiceUrl", "string", false, false, false},
    [4] = {"assignedBrokerServiceUrlTls", "string", false, false, false},
  },
  ["CommandCloseConsumer"] = {
    [1] = {"consumer_id", "uint64", false, false, true},
    [2] = {"request_id", "uint64", false, false, true},
    [3] = {"assignedBrokerServiceUrl", "string", false, false, false},
    [4] = {"assignedBrokerServiceUrlTls", "string", false, false, false},
  },
  ["CommandRedeliverUnacknowledgedMessages"] = {
    [1] = {"consumer_id", "uint64", false, false, true},
    [2] = {"message_ids", "message", "MessageIdData", true, false},
    [3] = {"consumer_epoch", "uint64", false, false, false},
  },
  ["CommandSuccess"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"schema", "message", "Schema", false, false},
  },
  ["CommandProducerSuccess"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"producer_name", "string", false, false, true},
    [3] = {"last_sequence_id", "int64", false, false, false},
    [4] = {"schema_version", "bytes", false, false, false},
    [5] = {"topic_epoch", "uint64", false, false, false},
    [6] = {"producer_ready", "bool", false, false, false},
  },
  ["CommandError"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"error", "enum", "ServerError", false, true},
    [3] = {"message", "string", false, false, true},
  },
  ["CommandPing"] = {
  },
  ["CommandPong"] = {
  },
  ["CommandConsumerStats"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [4] = {"consumer_id", "uint64", false, false, true},
  },
  ["CommandConsumerStatsResponse"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"error_code", "enum", "ServerError", false, false},
    [3] = {"error_message", "string", false, false, false},
    [4] = {"msgRateOut", "double", false, false, false},
    [5] = {"msgThroughputOut", "double", false, false, false},
    [6] = {"msgRateRedeliver", "double", false, false, false},
    [7] = {"consumerName", "string", false, false, false},
    [8] = {"availablePermits", "uint64", false, false, false},
    [9] = {"unackedMessages", "uint64", false, false, false},
    [10] = {"blockedConsumerOnUnackedMsgs", "bool", false, false, false},
    [11] = {"address", "string", false, false, false},
    [12] = {"connectedSince", "string", false, false, false},
    [13] = {"type", "string", false, false, false},
    [14] = {"msgRateExpired", "double", false, false, false},
    [15] = {"msgBacklog", "uint64", false, false, false},
    [16] = {"messageAckRate", "double", false, false, false},
  },
  ["CommandGetLastMessageId"] = {
    [1] = {"consumer_id", "uint64", false, false, true},
    [2] = {"request_id", "uint64", false, false, true},
  },
  ["CommandGetLastMessageIdResponse"] = {
    [1] = {"last_message_id", "message", "MessageIdData", false, true},
    [2] = {"request_id", "uint64", false, false, true},
    [3] = {"consumer_mark_delete_position", "message", "MessageIdData", false, false},
  },
  ["CommandGetTopicsOfNamespace"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"namespace", "string", false, false, true},
    [3] = {"mode", "enum", "CommandGetTopicsOfNamespace.Mode", false, false},
    [4] = {"topics_pattern", "string", false, false, false},
    [5] = {"topics_hash", "string", false, false, false},
    [6] = {"properties", "message", "KeyValue", true, false},
  },
  ["CommandGetTopicsOfNamespaceResponse"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"topics", "string", false, true, false},
    [3] = {"filtered", "bool", false, false, false},
    [4] = {"topics_hash", "string", false, false, false},
    [5] = {"changed", "bool", false, false, false},
  },
  ["CommandWatchTopicList"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"watcher_id", "uint64", false, false, true},
    [3] = {"namespace", "string", false, false, true},
    [4] = {"topics_pattern", "string", false, false, true},
    [5] = {"topics_hash", "string", false, false, false},
  },
  ["CommandWatchTopicListSuccess"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"watcher_id", "uint64", false, false, true},
    [3] = {"topic", "string", false, true, false},
    [4] = {"topics_hash", "string", false, false, true},
  },
  ["CommandWatchTopicUpdate"] = {
    [1] = {"watcher_id", "uint64", false, false, true},
    [2] = {"new_topics", "string", false, true, false},
    [3] = {"deleted_topics", "string", false, true, false},
    [4] = {"topics_hash", "string", false, false, true},
  },
  ["CommandWatchTopicListClose"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"watcher_id", "uint64", false, false, true},
  },
  ["SegmentInfoProto"] = {
    [1] = {"segment_id", "uint64", false, false, true},
    [2] = {"hash_start", "uint32", false, false, true},
    [3] = {"hash_end", "uint32", false, false, true},
    [4] = {"state", "enum", "SegmentState", false, true},
    [5] = {"parent_ids", "uint64", false, true, false},
    [6] = {"child_ids", "uint64", false, true, false},
    [7] = {"created_at_epoch", "uint64", false, false, true},
    [8] = {"sealed_at_epoch", "uint64", false, false, false},
    [9] = {"created_at_ms", "uint64", false, false, true},
    [10] = {"sealed_at_ms", "uint64", false, false, false},
    [11] = {"legacy_topic_name", "string", false, false, false},
    [12] = {"entry_bucket_splits", "uint32", false, true, false},
  },
  ["SegmentBrokerAddress"] = {
    [1] = {"segment_id", "uint64", false, false, true},
    [2] = {"broker_url", "string", false, false, true},
    [3] = {"broker_url_tls", "string", false, false, false},
  },
  ["ScalableTopicDAG"] = {
    [1] = {"epoch", "uint64", false, false, true},
    [2] = {"segments", "message", "SegmentInfoProto", true, false},
    [3] = {"segment_brokers", "message", "SegmentBrokerAddress", true, false},
    [4] = {"controller_broker_url", "string", false, false, false},
    [5] = {"controller_broker_url_tls", "string", false, false, false},
  },
  ["CommandScalableTopicLookup"] = {
    [1] = {"session_id", "uint64", false, false, true},
    [2] = {"topic", "string", false, false, true},
    [3] = {"create_if_missing", "bool", false, false, false},
  },
  ["CommandScalableTopicUpdate"] = {
    [1] = {"session_id", "uint64", false, false, true},
    [2] = {"dag", "message", "ScalableTopicDAG", false, false},
    [3] = {"error", "enum", "ServerError", false, false},
    [4] = {"message", "string", false, false, false},
    [5] = {"resolved_topic_name", "string", false, false, false},
  },
  ["CommandScalableTopicClose"] = {
    [1] = {"session_id", "uint64", false, false, true},
  },
  ["ScalableAssignedSegment"] = {
    [1] = {"segment_id", "uint64", false, false, true},
    [2] = {"hash_start", "uint32", false, false, true},
    [3] = {"hash_end", "uint32", false, false, true},
    [4] = {"segment_topic", "string", false, false, true},
    [5] = {"bucket_ranges", "message", "IntRange", true, false},
  },
  ["ScalableConsumerAssignment"] = {
    [1] = {"layout_epoch", "uint64", false, false, true},
    [2] = {"segments", "message", "ScalableAssignedSegment", true, false},
  },
  ["CommandScalableTopicSubscribe"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"topic", "string", false, false, true},
    [3] = {"subscription", "string", false, false, true},
    [4] = {"consumer_name", "string", false, false, true},
    [5] = {"consumer_id", "uint64", false, false, true},
    [6] = {"consumer_type", "enum", "ScalableConsumerType", false, true},
  },
  ["CommandScalableTopicSubscribeResponse"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"error", "enum", "ServerError", false, false},
    [3] = {"message", "string", false, false, false},
    [4] = {"assignment", "message", "ScalableConsumerAssignment", false, false},
  },
  ["CommandScalableTopicAssignmentUpdate"] = {
    [1] = {"consumer_id", "uint64", false, false, true},
    [2] = {"assignment", "message", "ScalableConsumerAssignment", false, true},
  },
  ["CommandWatchScalableTopics"] = {
    [1] = {"watch_id", "uint64", false, false, true},
    [2] = {"namespace", "string", false, false, true},
    [3] = {"property_filters", "message", "KeyValue", true, false},
    [4] = {"current_hash", "string", false, false, false},
  },
  ["ScalableTopicsSnapshot"] = {
    [1] = {"topics", "string", false, true, false},
  },
  ["ScalableTopicsDiff"] = {
    [1] = {"added", "string", false, true, false},
    [2] = {"removed", "string", false, true, false},
  },
  ["CommandWatchScalableTopicsUpdate"] = {
    [1] = {"watch_id", "uint64", false, false, true},
    [2] = {"snapshot", "message", "ScalableTopicsSnapshot", false, false},
    [3] = {"diff", "message", "ScalableTopicsDiff", false, false},
    [4] = {"error", "enum", "ServerError", false, false},
    [5] = {"message", "string", false, false, false},
  },
  ["CommandWatchScalableTopicsClose"] = {
    [1] = {"watch_id", "uint64", false, false, true},
  },
  ["CommandWatchTcAssignments"] = {
    [1] = {"watch_id", "uint64", false, false, true},
  },
  ["TcAssignment"] = {
    [1] = {"tc_id", "uint64", false, false, true},
    [2] = {"broker_service_url", "string", false, false, false},
    [3] = {"broker_service_url_tls", "string", false, false, false},
  },
  ["TcAssignmentsSnapshot"] = {
    [1] = {"parallelism", "uint32", false, false, true},
    [2] = {"assignments", "message", "TcAssignment", true, false},
  },
  ["CommandWatchTcAssignmentsUpdate"] = {
    [1] = {"watch_id", "uint64", false, false, true},
    [2] = {"snapshot", "message", "TcAssignmentsSnapshot", false, false},
    [3] = {"error", "enum", "ServerError", false, false},
    [4] = {"message", "string", false, false, false},
  },
  ["CommandWatchTcAssignmentsClose"] = {
    [1] = {"watch_id", "uint64", false, false, true},
  },
  ["CommandGetSchema"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"topic", "string", false, false, true},
    [3] = {"schema_version", "bytes", false, false, false},
  },
  ["CommandGetSchemaResponse"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"error_code", "enum", "ServerError", false, false},
    [3] = {"error_message", "string", false, false, false},
    [4] = {"schema", "message", "Schema", false, false},
    [5] = {"schema_version", "bytes", false, false, false},
  },
  ["CommandGetOrCreateSchema"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"topic", "string", false, false, true},
    [3] = {"schema", "message", "Schema", false, true},
    [4] = {"producerName", "string", false, false, false},
  },
  ["CommandGetOrCreateSchemaResponse"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"error_code", "enum", "ServerError", false, false},
    [3] = {"error_message", "string", false, false, false},
    [4] = {"schema_version", "bytes", false, false, false},
  },
  ["CommandTcClientConnectRequest"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"tc_id", "uint64", false, false, true},
    [3] = {"scalable", "bool", false, false, false},
  },
  ["CommandTcClientConnectResponse"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"error", "enum", "ServerError", false, false},
    [3] = {"message", "string", false, false, false},
  },
  ["CommandNewTxn"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"txn_ttl_millis", "uint64", false, false, false},
    [3] = {"tc_id", "uint64", false, false, false},
    [4] = {"scalable", "bool", false, false, false},
  },
  ["CommandNewTxnResponse"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"txnid_least_bits", "uint64", false, false, false},
    [3] = {"txnid_most_bits", "uint64", false, false, false},
    [4] = {"error", "enum", "ServerError", false, false},
    [5] = {"message", "string", false, false, false},
  },
  ["CommandAddPartitionToTxn"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"txnid_least_bits", "uint64", false, false, false},
    [3] = {"txnid_most_bits", "uint64", false, false, false},
    [4] = {"partitions", "string", false, true, false},
    [5] = {"scalable", "bool", false, false, false},
  },
  ["CommandAddPartitionToTxnResponse"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"txnid_least_bits", "uint64", false, false, false},
    [3] = {"txnid_most_bits", "uint64", false, false, false},
    [4] = {"error", "enum", "ServerError", false, false},
    [5] = {"message", "string", false, false, false},
  },
  ["Subscription"] = {
    [1] = {"topic", "string", false, false, true},
    [2] = {"subscription", "string", false, false, true},
  },
  ["CommandAddSubscriptionToTxn"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"txnid_least_bits", "uint64", false, false, false},
    [3] = {"txnid_most_bits", "uint64", false, false, false},
    [4] = {"subscription", "message", "Subscription", true, false},
    [5] = {"scalable", "bool", false, false, false},
  },
  ["CommandAddSubscriptionToTxnResponse"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"txnid_least_bits", "uint64", false, false, false},
    [3] = {"txnid_most_bits", "uint64", false, false, false},
    [4] = {"error", "enum", "ServerError", false, false},
    [5] = {"message", "string", false, false, false},
  },
  ["CommandEndTxn"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"txnid_least_bits", "uint64", false, false, false},
    [3] = {"txnid_most_bits", "uint64", false, false, false},
    [4] = {"txn_action", "enum", "TxnAction", false, false},
    [5] = {"scalable", "bool", false, false, false},
  },
  ["CommandEndTxnResponse"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"txnid_least_bits", "uint64", false, false, false},
    [3] = {"txnid_most_bits", "uint64", false, false, false},
    [4] = {"error", "enum", "ServerError", false, false},
    [5] = {"message", "string", false, false, false},
  },
  ["CommandEndTxnOnPartition"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"txnid_least_bits", "uint64", false, false, false},
    [3] = {"txnid_most_bits", "uint64", false, false, false},
    [4] = {"topic", "string", false, false, false},
    [5] = {"txn_action", "enum", "TxnAction", false, false},
    [6] = {"txnid_least_bits_of_low_watermark", "uint64", false, false, false},
  },
  ["CommandEndTxnOnPartitionResponse"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"txnid_least_bits", "uint64", false, false, false},
    [3] = {"txnid_most_bits", "uint64", false, false, false},
    [4] = {"error", "enum", "ServerError", false, false},
    [5] = {"message", "string", false, false, false},
  },
  ["CommandEndTxnOnSubscription"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"txnid_least_bits", "uint64", false, false, false},
    [3] = {"txnid_most_bits", "uint64", false, false, false},
    [4] = {"subscription", "message", "Subscription", false, false},
    [5] = {"txn_action", "enum", "TxnAction", false, false},
    [6] = {"txnid_least_bits_of_low_watermark", "uint64", false, false, false},
  },
  ["CommandEndTxnOnSubscriptionResponse"] = {
    [1] = {"request_id", "uint64", false, false, true},
    [2] = {"txnid_least_bits", "uint64", false, false, false},
    [3] = {"txnid_most_bits", "uint64", false, false, false},
    [4] = {"error", "enum", "ServerError", false, false},
    [5] = {"message", "string", false, false, false},
  },
  ["BaseCommand"] = {
    [1] = {"type", "enum", "BaseCommand.Type", false, true},
    [2] = {"connect", "message", "CommandConnect", false, false},
    [3] = {"connected", "message", "CommandConnected", false, false},
    [4] = {"subscribe", "message", "CommandSubscribe", false, false},
    [5] = {"producer", "message", "CommandProducer", false, false},
    [6] = {"send", "message", "CommandSend", false, false},
    [7] = {"send_receipt", "message", "CommandSendReceipt", false, false},
    [8] = {"send_error", "message", "CommandSendError", false, false},
    [9] = {"message", "message", "CommandMessage", false, false},
    [10] = {"ack", "message", "CommandAck", false, false},
    [11] = {"flow", "message", "CommandFlow", false, false},
    [12] = {"unsubscribe", "message", "CommandUnsubscribe", false, false},
    [13] = {"success", "message", "CommandSuccess", false, false},
    [14] = {"error", "message", "CommandError", false, false},
    [15] = {"close_producer", "message", "CommandCloseProducer", false, false},
    [16] = {"close_consumer", "message", "CommandCloseConsumer", false, false},
    [17] = {"producer_success", "message", "CommandProducerSuccess", false, false},
    [18] = {"ping", "message", "CommandPing", false, false},
    [19] = {"pong", "message", "CommandPong", false, false},
    [20] = {"redeliverUnacknowledgedMessages", "message", "CommandRedeliverUnacknowledgedMessages", false, false},
    [21] = {"partitionMetadata", "message", "CommandPartitionedTopicMetadata", false, false},
    [22] = {"partitionMetadataResponse", "message", "CommandPartitionedTopicMetadataResponse", false, false},
    [23] = {"lookupTopic", "message", "CommandLookupTopic", false, false},
    [24] = {"lookupTopicResponse", "message", "CommandLookupTopicResponse", false, false},
    [25] = {"consumerStats", "message", "CommandConsumerStats", false, false},
    [26] = {"consumerStatsResponse", "message", "CommandConsumerStatsResponse", false, false},
    [27] = {"reachedEndOfTopic", "message", "CommandReachedEndOfTopic", false, false},
    [28] = {"seek", "message", "CommandSeek", false, false},
    [29] = {"getLastMessageId", "message", "CommandGetLastMessageId", false, false},
    [30] = {"getLastMessageIdResponse", "message", "CommandGetLastMessageIdResponse", false, false},
    [31] = {"active_consumer_change", "message", "CommandActiveConsumerChange", false, false},
    [32] = {"getTopicsOfNamespace", "message", "CommandGetTopicsOfNamespace", false, false},
    [33] = {"getTopicsOfNamespaceResponse", "message", "CommandGetTopicsOfNamespaceResponse", false, false},
    [34] = {"getSchema", "message", "CommandGetSchema", false, false},
    [35] = {"getSchemaResponse", "message", "CommandGetSchemaResponse", false, false},
    [36] = {"authChallenge", "message", "CommandAuthChallenge", false, false},
    [37] = {"authResponse", "message", "CommandAuthResponse", false, false},
    [38] = {"ackResponse", "message", "CommandAckResponse", false, false},
    [39] = {"getOrCreateSchema", "message", "CommandGetOrCreateSchema", false, false},
    [40] = {"getOrCreateSchemaResponse", "message", "CommandGetOrCreateSchemaResponse", false, false},
    [50] = {"newTxn", "message", "CommandNewTxn", false, false},
    [51] = {"newTxnResponse", "message", "CommandNewTxnResponse", false, false},
    [52] = {"addPartitionToTxn", "message", "CommandAddPartitionToTxn", false, false},
    [53] = {"addPartitionToTxnResponse", "message", "CommandAddPartitionToTxnResponse", false, false},
    [54] = {"addSubscriptionToTxn", "message", "CommandAddSubscriptionToTxn", false, false},
    [55] = {"addSubscriptionToTxnResponse", "message", "CommandAddSubscriptionToTxnResponse", false, false},
    [56] = {"endTxn", "message", "CommandEndTxn", false, false},
    [57] = {"endTxnResponse", "message", "CommandEndTxnResponse", false, false},
    [58] = {"endTxnOnPartition", "message", "CommandEndTxnOnPartition", false, false},
    [59] = {"endTxnOnPartitionResponse", "message", "CommandEndTxnOnPartitionResponse", false, false},
    [60] = {"endTxnOnSubscription", "message", "CommandEndTxnOnSubscription", false, false},
    [61] = {"endTxnOnSubscriptionResponse", "message", "CommandEndTxnOnSubscriptionResponse", false, false},
    [62] = {"tcClientConnectRequest", "message", "CommandTcClientConnectRequest", false, false},
    [63] = {"tcClientConnectResponse", "message", "CommandTcClientConnectResponse", false, false},
    [64] = {"watchTopicList", "message", "CommandWatchTopicList", false, false},
    [65] = {"watchTopicListSuccess", "message", "CommandWatchTopicListSuccess", false, false},
    [66] = {"watchTopicUpdate", "message", "CommandWatchTopicUpdate", false, false},
    [67] = {"watchTopicListClose", "message", "CommandWatchTopicListClose", false, false},
    [68] = {"topicMigrated", "message", "CommandTopicMigrated", false, false},
    [70] = {"scalableTopicLookup", "message", "CommandScalableTopicLookup", false, false},
    [71] = {"scalableTopicUpdate", "message", "CommandScalableTopicUpdate", false, false},
    [72] = {"scalableTopicClose", "message", "CommandScalableTopicClose", false, false},
    [73] = {"scalableTopicSubscribe", "message", "CommandScalableTopicSubscribe", false, false},
    [74] = {"scalableTopicSubscribeResponse", "message", "CommandScalableTopicSubscribeResponse", false, false},
    [75] = {"scalableTopicAssignmentUpdate", "message", "CommandScalableTopicAssignmentUpdate", false, false},
    [76] = {"watchScalableTopics", "message", "CommandWatchScalableTopics", false, false},
    [77] = {"watchScalableTopicsUpdate", "message", "CommandWatchScalableTopicsUpdate", false, false},
    [78] = {"watchScalableTopicsClose", "message", "CommandWatchScalableTopicsClose", false, false},
    [79] = {"watchTcAssignments", "message", "CommandWatchTcAssignments", false, false},
    [80] = {"watchTcAssignmentsUpdate", "message", "CommandWatchTcAssignmentsUpdate", false, false},
    [81] = {"watchTcAssignmentsClose", "message", "CommandWatchTcAssignmentsClose", false, false},
  },
}

local enums = {
  ["CompressionType"] = {[0] = "NONE", [1] = "LZ4", [2] = "ZLIB", [3] = "ZSTD", [4] = "SNAPPY"},
  ["ProducerAccessMode"] = {[0] = "Shared", [1] = "Exclusive", [2] = "WaitForExclusive", [3] = "ExclusiveWithFencing"},
  ["ServerError"] = {[0] = "UnknownError", [1] = "MetadataError", [2] = "PersistenceError", [3] = "AuthenticationError", [4] = "AuthorizationError", [5] = "ConsumerBusy", [6] = "ServiceNotReady", [7] = "ProducerBlockedQuotaExceededError", [8] = "ProducerBlockedQuotaExceededException", [9] = "ChecksumError", [10] = "UnsupportedVersionError", [11] = "TopicNotFound", [12] = "SubscriptionNotFound", [13] = "ConsumerNotFound", [14] = "TooManyRequests", [15] = "TopicTerminatedError", [16] = "ProducerBusy", [17] = "InvalidTopicName", [18] = "IncompatibleSchema", [19] = "ConsumerAssignError", [20] = "TransactionCoordinatorNotFound", [21] = "InvalidTxnStatus", [22] = "NotAllowedError", [23] = "TransactionConflict", [24] = "TransactionNotFound", [25] = "ProducerFenced"},
  ["AuthMethod"] = {[0] = "AuthMethodNone", [1] = "AuthMethodYcaV1", [2] = "AuthMethodAthens"},
  ["ProtocolVersion"] = {[0] = "v0", [1] = "v1", [2] = "v2", [3] = "v3", [4] = "v4", [5] = "v5", [6] = "v6", [7] = "v7", [8] = "v8", [9] = "v9", [10] = "v10", [11] = "v11", [12] = "v12", [13] = "v13", [14] = "v14", [15] = "v15", [16] = "v16", [17] = "v17", [18] = "v18", [19] = "v19", [20] = "v20", [21] = "v21"},
  ["KeySharedMode"] = {[0] = "AUTO_SPLIT", [1] = "STICKY"},
  ["SegmentState"] = {[0] = "ACTIVE", [1] = "SEALED"},
  ["ScalableConsumerType"] = {[0] = "STREAM", [1] = "CHECKPOINT"},
  ["TxnAction"] = {[0] = "COMMIT", [1] = "ABORT"},
  ["Schema.Type"] = {[0] = "None", [1] = "String", [2] = "Json", [3] = "Protobuf", [4] = "Avro", [5] = "Bool", [6] = "Int8", [7] = "Int16", [8] = "Int32", [9] = "Int64", [10] = "Float", [11] = "Double", [12] = "Date", [13] = "Time", [14] = "Timestamp", [15] = "KeyValue", [16] = "Instant", [17] = "LocalDate", [18] = "LocalTime", [19] = "LocalDateTime", [20] = "ProtobufNative", [21] = "AutoConsume", [22] = "External"},
  ["CommandSubscribe.SubType"] = {[0] = "Exclusive", [1] = "Shared", [2] = "Failover", [3] = "Key_Shared"},
  ["CommandSubscribe.InitialPosition"] = {[0] = "Latest", [1] = "Earliest"},
  ["CommandPartitionedTopicMetadataResponse.LookupType"] = {[0] = "Success", [1] = "Failed"},
  ["CommandLookupTopicResponse.LookupType"] = {[0] = "Redirect", [1] = "Connect", [2] = "Failed"},
  ["CommandAck.AckType"] = {[0] = "Individual", [1] = "Cumulative"},
  ["CommandAck.ValidationError"] = {[0] = "UncompressedSizeCorruption", [1] = "DecompressionError", [2] = "ChecksumMismatch", [3] = "BatchDeSerializeError", [4] = "DecryptionError"},
  ["CommandTopicMigrated.ResourceType"] = {[0] = "Producer", [1] = "Consumer"},
  ["CommandGetTopicsOfNamespace.Mode"] = {[0] = "PERSISTENT", [1] = "NON_PERSISTENT", [2] = "ALL"},
  ["BaseCommand.Type"] = {[2] = "CONNECT", [3] = "CONNECTED", [4] = "SUBSCRIBE", [5] = "PRODUCER", [6] = "SEND", [7] = "SEND_RECEIPT", [8] = "SEND_ERROR", [9] = "MESSAGE", [10] = "ACK", [11] = "FLOW", [12] = "UNSUBSCRIBE", [13] = "SUCCESS", [14] = "ERROR", [15] = "CLOSE_PRODUCER", [16] = "CLOSE_CONSUMER", [17] = "PRODUCER_SUCCESS", [18] = "PING", [19] = "PONG", [20] = "REDELIVER_UNACKNOWLEDGED_MESSAGES", [21] = "PARTITIONED_METADATA", [22] = "PARTITIONED_METADATA_RESPONSE", [23] = "LOOKUP", [24] = "LOOKUP_RESPONSE", [25] = "CONSUMER_STATS", [26] = "CONSUMER_STATS_RESPONSE", [27] = "REACHED_END_OF_TOPIC", [28] = "SEEK", [29] = "GET_LAST_MESSAGE_ID", [30] = "GET_LAST_MESSAGE_ID_RESPONSE", [31] = "ACTIVE_CONSUMER_CHANGE", [32] = "GET_TOPICS_OF_NAMESPACE", [33] = "GET_TOPICS_OF_NAMESPACE_RESPONSE", [34] = "GET_SCHEMA", [35] = "GET_SCHEMA_RESPONSE", [36] = "AUTH_CHALLENGE", [37] = "AUTH_RESPONSE", [38] = "ACK_RESPONSE", [39] = "GET_OR_CREATE_SCHEMA", [40] = "GET_OR_CREATE_SCHEMA_RESPONSE", [50] = "NEW_TXN", [51] = "NEW_TXN_RESPONSE", [52] = "ADD_PARTITION_TO_TXN", [53] = "ADD_PARTITION_TO_TXN_RESPONSE", [54] = "ADD_SUBSCRIPTION_TO_TXN", [55] = "ADD_SUBSCRIPTION_TO_TXN_RESPONSE", [56] = "END_TXN", [57] = "END_TXN_RESPONSE", [58] = "END_TXN_ON_PARTITION", [59] = "END_TXN_ON_PARTITION_RESPONSE", [60] = "END_TXN_ON_SUBSCRIPTION", [61] = "END_TXN_ON_SUBSCRIPTION_RESPONSE", [62] = "TC_CLIENT_CONNECT_REQUEST", [63] = "TC_CLIENT_CONNECT_RESPONSE", [64] = "WATCH_TOPIC_LIST", [65] = "WATCH_TOPIC_LIST_SUCCESS", [66] = "WATCH_TOPIC_UPDATE", [67] = "WATCH_TOPIC_LIST_CLOSE", [68] = "TOPIC_MIGRATED", [70] = "SCALABLE_TOPIC_LOOKUP", [71] = "SCALABLE_TOPIC_UPDATE", [72] = "SCALABLE_TOPIC_CLOSE", [73] = "SCALABLE_TOPIC_SUBSCRIBE", [74] = "SCALABLE_TOPIC_SUBSCRIBE_RESPONSE", [75] = "SCALABLE_TOPIC_ASSIGNMENT_UPDATE", [76] = "WATCH_SCALABLE_TOPICS", [77] = "WATCH_SCALABLE_TOPICS_UPDATE", [78] = "WATCH_SCALABLE_TOPICS_CLOSE", [79] = "WATCH_TC_ASSIGNMENTS", [80] = "WATCH_TC_ASSIGNMENTS_UPDATE", [81] = "WATCH_TC_ASSIGNMENTS_CLOSE"},
}

local metadata_numbers = {num_messages_in_batch = 11, encryption_keys = 13, compression = 8}
local single_payload_size = 3
local last_type = 81

-- What follows reads frames by these tables. Wireshark 3.6 or later; Lua 5.1 to 5.4.

local FRAME_MAX = 64 * 1024 * 1024 + 10240
local COMMAND_MAX = 5 * 1024 * 1024
local DEPTH_MAX = 16
local BATCH_MAX = 100000

local pulsar = Proto("pulsar", "Apache Pulsar")
pulsar.prefs.verify = Pref.bool("Verify checksums", true, "Compute the CRC32-C of each SEND and MESSAGE")
pulsar.prefs.search = Pref.bool("Search for frames after loss", true, "Find the next frame by content where the capture lacks bytes")

local VARINTS = {uint64 = true, int64 = true, uint32 = true, int32 = true, bool = true, enum = true}
local MAKERS = {
  uint64 = ProtoField.uint64, int64 = ProtoField.int64, uint32 = ProtoField.uint32, int32 = ProtoField.int32,
  bool = ProtoField.bool, string = ProtoField.string, bytes = ProtoField.bytes, double = ProtoField.double,
}
local CHECKSUMS = {good = "good", bad = "bad", absent = "absent", unverified = "unverified"}

-- Fields, by path -------------------------------------------------------------------------------------------------

local fields, list = {}, {}

local function register(path, field)
  fields[path] = field
  list[#list + 1] = field
end

local function register_message(message, path, above)
  for _, field in pairs(messages[message]) do
    local name, kind, inner = field[1], field[2], field[3]
    local at = path .. "." .. name
    if kind == "message" then
      register(at, ProtoField.none(at, name))
      if not above[inner] then
        above[inner] = true
        register_message(inner, at, above)
        above[inner] = nil
      end
    elseif kind == "enum" then
      register(at, ProtoField.uint32(at, name, base.DEC, enums[inner]))
    else
      register(at, MAKERS[kind](at, name))
    end
  end
end

register("pulsar.size", ProtoField.uint32("pulsar.size", "Size"))
register("pulsar.command_size", ProtoField.uint32("pulsar.command_size", "Command size"))
register("pulsar.command", ProtoField.uint32("pulsar.command", "Command", base.DEC, enums["BaseCommand.Type"]))
register("pulsar.checksum", ProtoField.uint32("pulsar.checksum", "Checksum", base.HEX))
register("pulsar.checksum.status", ProtoField.string("pulsar.checksum.status", "Checksum status"))
register("pulsar.checksum.computed", ProtoField.uint32("pulsar.checksum.computed", "Computed checksum", base.HEX))
register("pulsar.payload", ProtoField.bytes("pulsar.payload", "Payload"))
register("pulsar.payload_size", ProtoField.uint32("pulsar.payload_size", "Payload size"))
register("pulsar.unknown", ProtoField.bytes("pulsar.unknown", "Unknown field"))
register("pulsar.skipped", ProtoField.bytes("pulsar.skipped", "Bytes of no known frame"))
register("pulsar.message", ProtoField.none("pulsar.message", "Message"))
register("pulsar.message.batch_index", ProtoField.uint32("pulsar.message.batch_index", "Batch index"))
register("pulsar.message.payload", ProtoField.bytes("pulsar.message.payload", "Payload"))
register_message("BaseCommand", "pulsar", {BaseCommand = true})
register("pulsar.broker_entry_metadata", ProtoField.none("pulsar.broker_entry_metadata", "Broker entry metadata"))
register_message("BrokerEntryMetadata", "pulsar.broker_entry_metadata", {})
register("pulsar.metadata", ProtoField.none("pulsar.metadata", "Metadata"))
register_message("MessageMetadata", "pulsar.metadata", {})
register_message("SingleMessageMetadata", "pulsar.message", {})
pulsar.fields = list

local bad_checksum = ProtoExpert.new("pulsar.checksum.bad", "The checksum does not fit", expert.group.CHECKSUM, expert.severity.ERROR)
local malformed = ProtoExpert.new("pulsar.malformed", "The frame is damaged", expert.group.MALFORMED, expert.severity.ERROR)
pulsar.experts = {bad_checksum, malformed}

-- CRC32-C (RFC 3720, appendix B.4) --------------------------------------------------------------------------------

local exclusive_or, shifted
if bit32 then
  exclusive_or, shifted = bit32.bxor, bit32.rshift
elseif bit then
  exclusive_or, shifted = bit.bxor, bit.rshift
else
  exclusive_or = load("return function(a, b) return a ~ b end")()
  shifted = load("return function(a, n) return a >> n end")()
end

local crc_table = {}
for byte = 0, 255 do
  local value = byte
  for _ = 1, 8 do
    value = value % 2 == 1 and exclusive_or(shifted(value, 1), 0x82F63B78) or shifted(value, 1)
  end
  crc_table[byte] = value
end

local function crc32c(data, first, last)
  local value = 0xFFFFFFFF
  for start = first, last, 4096 do
    local bytes = {data:byte(start, math.min(start + 4095, last))}
    for at = 1, #bytes do
      value = exclusive_or(shifted(value, 8), crc_table[exclusive_or(value, bytes[at]) % 256])
    end
  end
  return exclusive_or(value, 0xFFFFFFFF) % 0x100000000
end

-- Protobuf --------------------------------------------------------------------------------------------------------
-- Positions count from 1, as in strings of Lua; `stop` is behind the last byte.

local function u32(data, at)
  local a, b, c, d = data:byte(at, at + 3)
  return ((a * 256 + b) * 256 + c) * 256 + d
end

-- Low and high 32 bits of a varint, and the position behind it; nil when it does not end before `stop`.
local function varint(data, at, stop)
  local low, high, factor = 0, 0, 1
  for group = 0, 9 do
    if at >= stop then return nil end
    local byte = data:byte(at)
    local bits = byte % 128
    at = at + 1
    if group < 4 then
      low = low + bits * factor
    elseif group == 4 then
      low = low + bits % 16 * 0x10000000
      high = math.floor(bits / 16)
      factor = 1 / 16
    else
      high = high + (group == 9 and bits % 2 or bits) * factor
    end
    factor = factor * 128
    if byte < 128 then return low, math.floor(high), at end
  end
  return nil
end

local function number_of(kind, low, high)
  if kind == "uint64" then return UInt64.new(low, high) end
  if kind == "int64" then return Int64.new(low, high) end
  if kind == "bool" then return low ~= 0 or high ~= 0 end
  if kind == "int32" and low >= 0x80000000 then return low - 0x100000000 end
  return low
end

-- A view of the bytes of a frame: `data` is a string, `tvb` the same bytes for the tree.
local function range(view, at, stop)
  return view.tvb(at - 1, stop - at)
end

-- A message within itself has fields at one level only.
local function field_of(path)
  return fields[path] or fields["pulsar.unknown"]
end

local function add_number(tree, path, bytes, kind, low, high)
  if path == "pulsar.type" then
    return -- pulsar.command, which stands before
  elseif fields[path] then
    tree:add(fields[path], bytes, number_of(kind, low, high))
  else
    tree:add(fields["pulsar.unknown"], bytes)
  end
end

-- Add the fields of a message to a tree, or, without a tree, check it strictly: known fields, each with its own wire type, all required
-- ones. Returns whether it could be read, and the numbers found in it: value of the last varint, position of the last other one.
local function walk(view, at, stop, message, path, tree, depth)
  local known, found = messages[message], {}
  local data = view.data
  while at < stop do
    local start = at
    local tag, over
    tag, over, at = varint(data, at, stop)
    if not tag or over ~= 0 or tag < 8 then return false, found end
    local number, wire = math.floor(tag / 8), tag % 8
    local field = known[number]
    local kind = field and field[2]
    local at_path = field and path .. "." .. field[1]
    if wire == 0 then
      local low, high
      low, high, at = varint(data, at, stop)
      if not low then return false, found end
      if VARINTS[kind] then
        found[number] = low
        if tree then add_number(tree, at_path, range(view, start, at), kind, low, high) end
      elseif tree then
        tree:add(fields["pulsar.unknown"], range(view, start, at))
      else
        return false, found
      end
    elseif wire == 2 then
      local size, large, content = varint(data, at, stop)
      if not size or large ~= 0 or size > stop - content then return false, found end
      at = content + size
      found[number] = content
      if kind == "message" and depth < DEPTH_MAX then
        local inner = tree and tree:add(field_of(at_path), range(view, start, at))
        if not walk(view, content, at, field[3], at_path, inner, depth + 1) then return false, found end
      elseif kind == "string" or kind == "bytes" then
        if tree then tree:add(field_of(at_path), range(view, content, at)) end
      elseif VARINTS[kind] and field[4] then -- packed
        while content < at do
          local low, high, behind = varint(data, content, at)
          if not low then return false, found end
          if tree then add_number(tree, at_path, range(view, content, behind), kind, low, high) end
          content = behind
        end
      elseif tree then
        tree:add(fields["pulsar.unknown"], range(view, start, at))
      else
        return false, found
      end
    elseif wire == 1 or wire == 5 then
      local size = wire == 1 and 8 or 4
      if stop - at < size then return false, found end
      at = at + size
      found[number] = start
      if kind == "double" and wire == 1 then
        if tree then tree:add_le(field_of(at_path), range(view, at - 8, at)) end
      elseif tree then
        tree:add(fields["pulsar.unknown"], range(view, start, at))
      else
        return false, found
      end
    else
      return false, found
    end
  end
  if not tree then
    for number, field in pairs(known) do
      if field[5] and found[number] == nil then return false, found end
    end
  end
  return true, found
end

-- Frames ----------------------------------------------------------------------------------------------------------

local OPENING_MAX = 65536

local function command_name(kind)
  return enums["BaseCommand.Type"][kind] or "UNKNOWN_" .. kind
end

-- Sizes of the frame at a position, when its first ten bytes may begin one: size, position behind its command, type, which may be one that
-- is not known on a connection that is.
local function head(data, at, any_type)
  local total, command = u32(data, at), u32(data, at + 4)
  local kind = data:byte(at + 9)
  if total > FRAME_MAX or command > COMMAND_MAX or command < 2 or command + 4 > total then return nil end
  if data:byte(at + 8) ~= 8 or not (enums["BaseCommand.Type"][kind] or any_type and kind > 0 and kind < 128) then return nil end
  return total + 4, at + 8 + command, kind
end

-- Whether the command of the frame at a position is one beyond doubt; nil when its bytes are not all there.
local function strict(data, at)
  if #data - at + 1 < 10 then return nil end
  local size, command_stop, kind = head(data, at)
  if not size then return false end
  local name = enums["BaseCommand.Type"][kind]
  local carries = name == "SEND" or name == "MESSAGE"
  if not carries and command_stop ~= at + size then return false end
  if command_stop - 1 > #data then return nil end
  local read, found = walk({data = data}, at + 8, command_stop, "BaseCommand", "", nil, 0)
  if not read or not found[kind] then return false end
  for number in pairs(found) do
    if number ~= 1 and number ~= kind then return false end
  end
  return true, size, name
end

local function add_batch(view, at, stop, count, tree)
  for index = 0, math.min(count, BATCH_MAX) - 1 do
    if stop - at < 4 then return false end
    local metadata_stop = at + 4 + u32(view.data, at)
    if metadata_stop > stop then return false end
    local read, found = walk(view, at + 4, metadata_stop, "SingleMessageMetadata", "", nil, 0)
    local size = found[single_payload_size]
    if not read or not size or size > stop - metadata_stop then return false end
    local item = tree:add(fields["pulsar.message"], range(view, at, metadata_stop + size)):append_text(" " .. index)
    item:add(fields["pulsar.message.batch_index"], range(view, at, at + 4), index)
    walk(view, at + 4, metadata_stop, "SingleMessageMetadata", "pulsar.message", item, 0)
    if size > 0 then item:add(fields["pulsar.message.payload"], range(view, metadata_stop, metadata_stop + size)) end
    at = metadata_stop + size
  end
  return true
end

local DECOMPRESSORS = {ZLIB = {"uncompress_zlib", "uncompress"}, ZSTD = {"uncompress_zstd"}, SNAPPY = {"uncompress_snappy"}}

-- The bytes of a payload as its producer gave them; nil when they cannot be had here.
local function opened(view, at, stop, compression)
  if compression == nil or compression == 0 then return view, at, stop end
  local whole = range(view, at, stop)
  for _, name in ipairs(DECOMPRESSORS[enums.CompressionType[compression]] or {}) do
    local done, inner = pcall(function() return whole[name](whole, "Decompressed payload") end)
    if done and inner and inner:len() > 0 then
      return {data = inner:raw(), tvb = inner}, 1, inner:len() + 1
    end
  end
  return nil
end

-- Add what stands behind the command of SEND or MESSAGE. Returns whether it could be read.
local function add_payload(view, at, stop, complete, tree)
  local data = view.data
  local last = math.min(stop, #data + 1)
  if last - at >= 6 and data:byte(at) == 0x0e and data:byte(at + 1) == 0x02 then
    local inner_stop = at + 6 + u32(data, at + 2)
    if inner_stop > last then return not complete end
    local item = tree:add(fields["pulsar.broker_entry_metadata"], range(view, at, inner_stop))
    if not walk(view, at + 6, inner_stop, "BrokerEntryMetadata", "pulsar.broker_entry_metadata", item, 0) then return false end
    at = inner_stop
  end
  local status = complete and "absent" or "unverified"
  if last - at >= 10 and data:byte(at) == 0x0e and data:byte(at + 1) == 0x01 then
    local stored = u32(data, at + 2)
    local item = tree:add(fields["pulsar.checksum"], range(view, at + 2, at + 6), stored)
    status = "unverified"
    if complete and pulsar.prefs.verify then
      local computed = crc32c(data, at + 6, stop - 1)
      status = computed == stored and "good" or "bad"
      if status == "bad" then
        item:add(fields["pulsar.checksum.computed"], computed):set_generated()
        item:add_proto_expert_info(bad_checksum)
      end
    end
    at = at + 6
  end
  tree:add(fields["pulsar.checksum.status"], CHECKSUMS[status]):set_generated()
  if last - at < 4 then return not complete end
  local metadata_stop = at + 4 + u32(data, at)
  if metadata_stop > last then return not complete and metadata_stop <= stop end
  local item = tree:add(fields["pulsar.metadata"], range(view, at, metadata_stop))
  local read, found = walk(view, at + 4, metadata_stop, "MessageMetadata", "pulsar.metadata", item, 0)
  if not read then return false end
  tree:add(fields["pulsar.payload_size"], stop - metadata_stop):set_generated()
  if metadata_stop >= last then return true end
  local payload = tree:add(fields["pulsar.payload"], range(view, metadata_stop, last))
  local count = found[metadata_numbers.num_messages_in_batch]
  if complete and count and not found[metadata_numbers.encryption_keys] then
    local inner, inner_at, inner_stop = opened(view, metadata_stop, stop, found[metadata_numbers.compression])
    if inner then return add_batch(inner, inner_at, inner_stop, count, payload) end
  end
  return true
end

-- Add the frame in a view, whose bytes may end before it does. Returns the name of its command.
local function add_frame(view, size, command_stop, kind, tree)
  local name = command_name(kind)
  local data = view.data
  local last = math.min(size + 1, #data + 1)
  local complete = last == size + 1
  local item = tree:add(pulsar, range(view, 1, last), "Apache Pulsar, " .. name)
  item:add(fields["pulsar.size"], range(view, 1, 5))
  item:add(fields["pulsar.command_size"], range(view, 5, 9))
  item:add(fields["pulsar.command"], range(view, 10, 11), kind)
  local read = true
  if command_stop <= last then
    read = walk(view, 9, command_stop, "BaseCommand", "pulsar", item, 0)
    if name == "SEND" or name == "MESSAGE" then
      if command_stop < size + 1 then read = add_payload(view, command_stop, size + 1, complete, item) and read end
    end
  end
  if not read then item:add_proto_expert_info(malformed) end
  if not complete then item:append_text(" [cut by the capture]") end
  return name
end

-- Length of a header of the PROXY protocol at the start of a connection.
local function proxy_header(data)
  if data:sub(1, 6) == "PROXY " then
    local _, stop = data:find("\r\n", 1, true)
    return stop and stop <= 107 and stop or 0
  end
  if data:sub(1, 12) == "\r\n\r\n\0\r\nQUIT\n" and #data >= 16 then
    local a, b = data:byte(15, 16)
    return 16 + a * 256 + b
  end
  return 0
end

local function next_candidate(data, at)
  while true do
    at = data:find("[%z\1-\4]...%z[%z\1-\79]..\8[\2-" .. string.char(last_type) .. "]", at)
    if not at then return nil end
    if strict(data, at) then return at end
    at = at + 1
  end
end

local function dissect(tvb, pinfo, tree)
  local data = tvb:raw()
  local cut = tvb:reported_len() > #data
  local at = proxy_header(data) + 1
  local names = {}
  while at <= #data do
    local left = #data - at + 1
    local size, command_stop, kind
    if left >= 10 then size, command_stop, kind = head(data, at, true) end
    if left >= 10 and not size then
      local next_at = pulsar.prefs.search and next_candidate(data, at + 1)
      local stop = next_at or #data + 1
      tree:add(pulsar, tvb(at - 1, stop - at), "Apache Pulsar, bytes of no known frame"):add(fields["pulsar.skipped"], tvb(at - 1, stop - at))
      at = stop
    elseif (left < 10 or left < size) and not cut and pinfo.can_desegment > 0 then
      pinfo.desegment_offset = at - 1
      pinfo.desegment_len = left < 10 and DESEGMENT_ONE_MORE_SEGMENT or size - left
      break
    elseif left < 10 then
      break
    else
      local stop = math.min(at + size, #data + 1)
      local view = {data = data:sub(at, stop - 1), tvb = tvb(at - 1, stop - at):tvb()}
      names[#names + 1] = add_frame(view, size, command_stop - at + 1, kind, tree)
      at = stop
    end
  end
  if #names > 0 then
    pinfo.cols.protocol = "PULSAR"
    pinfo.cols.info = table.concat(names, ", ", 1, math.min(#names, 20)) .. (#names > 20 and ", …" or "")
  end
  return tvb:len()
end

function pulsar.dissector(tvb, pinfo, tree)
  return dissect(tvb, pinfo, tree)
end

-- Recognition by content: nothing is claimed by its port alone ------------------------------------------------------

local known = {} -- connections, by both ends in one order

function pulsar.init()
  known = {}
end

local function connection_of(pinfo)
  local a, b = tostring(pinfo.src) .. " " .. pinfo.src_port, tostring(pinfo.dst) .. " " .. pinfo.dst_port
  return a < b and a .. " " .. b or b .. " " .. a
end

local function recognised(tvb, pinfo)
  local data = tvb:raw(0, math.min(tvb:len(), COMMAND_MAX))
  local at = proxy_header(data) + 1
  if at > 1 and at > #data then return false end
  local sure, size, name = strict(data, at)
  if not sure then return false end
  if name == "CONNECT" or name == "CONNECTED" or pinfo.src_port == 6650 or pinfo.dst_port == 6650 then return true end
  local following = strict(data, at + size)
  if following ~= nil then return following end
  if name ~= "SEND" and name ~= "MESSAGE" then return false end
  local command_stop = at + 8 + u32(data, at + 4)
  local magic = data:sub(command_stop, command_stop + 1)
  return magic == "\14\1" or magic == "\14\2"
end

-- Whether these bytes begin a CONNECT or CONNECTED that goes on: credentials may be long. Nothing is claimed until it is whole.
local function begins_opening(tvb)
  local data = tvb:raw(0, 10)
  local size, command_stop, kind = head(data, 1)
  if not size or command_stop ~= size + 1 or size > OPENING_MAX or size <= tvb:len() then return nil end
  local name = command_name(kind)
  return (name == "CONNECT" or name == "CONNECTED") and size - tvb:len() or nil
end

local function heuristic(tvb, pinfo, tree, sets_conversation)
  local connection = connection_of(pinfo)
  if not known[connection] then
    if tvb:len() < 10 then return false end
    local missing = pinfo.can_desegment > 0 and begins_opening(tvb)
    if missing then
      pinfo.desegment_offset = 0
      pinfo.desegment_len = missing
      return true
    end
    if not recognised(tvb, pinfo) then return false end
    known[connection] = true
    if sets_conversation then pinfo.conversation = pulsar end
  end
  dissect(tvb, pinfo, tree)
  return true
end

pulsar:register_heuristic("tcp", function(tvb, pinfo, tree) return heuristic(tvb, pinfo, tree, true) end)
pcall(function()
  pulsar:register_heuristic("tls", function(tvb, pinfo, tree) return heuristic(tvb, pinfo, tree, false) end)
end)
DissectorTable.get("tcp.port"):add_for_decode_as(pulsar)
