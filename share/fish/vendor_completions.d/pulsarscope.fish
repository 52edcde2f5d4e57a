# Completion of pulsarscope for fish. Made of its commands by docs/make_share.py: not to be edited.

# Print the words of a list.
function __pulsarscope_list
    switch $argv[1]
        case commands
            printf '%s\n' decode messages stats diagnose report compare browse follow index extract sql mcp wireshark registry live pipeline \
                findings fields help config selftest
        case columns
            printf '%s\n' ack_frame ack_ns ack_time acknowledged auth_method batch_index batch_size broker_entry_metadata broker_time checksum \
                chunks client client_bytes client_dropped client_frames client_missing client_skipped client_tail client_version closed \
                closed_by code command compression connection consumer_id deliver_at deliveries delivery_frame delivery_ns delivery_time \
                direction dissector encrypted end entry error error_message event_time evidence extra fields file findings hint index \
                key key_is_bytes latency_ns layer ledger marker metadata null_value num_messages offset opened ordering_key origin \
                out_of_order packet packets partition payload payload_sha256 payload_size pod process producer_id producer_name \
                properties protocol_version proxy_source publish_time receipt_frame receipt_ns receipt_time redelivery_count \
                replicated_from replications request response response_file response_packet response_sub retransmitted schema_version \
                send_frame send_time sequence_id server server_bytes server_dropped server_frames server_missing server_skipped \
                server_tail server_version severity size source span_id start status storage_bookies storage_frame storage_ns \
                storage_time storage_writes sub subscription text time tls topic topics trace_id txn value writes
        case dissectors
            printf '%s\n' bookkeeper kafka07 pulsar
        case fields
            printf '%s\n' ACK ACK.ack_type ACK.consumer_id ACK.message_id ACK.message_id.ack_set ACK.message_id.batch_index \
                ACK.message_id.batch_size ACK.message_id.entryId ACK.message_id.first_chunk_message_id ACK.message_id.ledgerId \
                ACK.message_id.partition ACK.properties ACK.properties.key ACK.properties.value ACK.request_id ACK.txnid_least_bits \
                ACK.txnid_most_bits ACK.validation_error ACK_RESPONSE ACK_RESPONSE.consumer_id ACK_RESPONSE.error ACK_RESPONSE.message \
                ACK_RESPONSE.request_id ACK_RESPONSE.txnid_least_bits ACK_RESPONSE.txnid_most_bits ACTIVE_CONSUMER_CHANGE \
                ACTIVE_CONSUMER_CHANGE.consumer_id ACTIVE_CONSUMER_CHANGE.is_active ADD ADD.data ADD.data.kind ADD.data_size ADD.digest \
                ADD.entry ADD.flags ADD.last_add_confirmed ADD.ledger ADD.length ADD.master_key ADD.priority ADD.stored_entry \
                ADD.stored_ledger ADD.txn_id ADD.version ADD.write_flags ADD_PARTITION_TO_TXN ADD_PARTITION_TO_TXN.partitions \
                ADD_PARTITION_TO_TXN.request_id ADD_PARTITION_TO_TXN.scalable ADD_PARTITION_TO_TXN.txnid_least_bits \
                ADD_PARTITION_TO_TXN.txnid_most_bits ADD_PARTITION_TO_TXN_RESPONSE ADD_PARTITION_TO_TXN_RESPONSE.error \
                ADD_PARTITION_TO_TXN_RESPONSE.message ADD_PARTITION_TO_TXN_RESPONSE.request_id \
                ADD_PARTITION_TO_TXN_RESPONSE.txnid_least_bits ADD_PARTITION_TO_TXN_RESPONSE.txnid_most_bits ADD_RESPONSE \
                ADD_RESPONSE.entry ADD_RESPONSE.flags ADD_RESPONSE.ledger ADD_RESPONSE.priority ADD_RESPONSE.status ADD_RESPONSE.txn_id \
                ADD_RESPONSE.version ADD_SUBSCRIPTION_TO_TXN ADD_SUBSCRIPTION_TO_TXN.request_id ADD_SUBSCRIPTION_TO_TXN.scalable \
                ADD_SUBSCRIPTION_TO_TXN.subscription ADD_SUBSCRIPTION_TO_TXN.subscription.subscription \
                ADD_SUBSCRIPTION_TO_TXN.subscription.topic ADD_SUBSCRIPTION_TO_TXN.txnid_least_bits \
                ADD_SUBSCRIPTION_TO_TXN.txnid_most_bits ADD_SUBSCRIPTION_TO_TXN_RESPONSE ADD_SUBSCRIPTION_TO_TXN_RESPONSE.error \
                ADD_SUBSCRIPTION_TO_TXN_RESPONSE.message ADD_SUBSCRIPTION_TO_TXN_RESPONSE.request_id \
                ADD_SUBSCRIPTION_TO_TXN_RESPONSE.txnid_least_bits ADD_SUBSCRIPTION_TO_TXN_RESPONSE.txnid_most_bits AUTH AUTH.flags \
                AUTH.ledger AUTH.payload AUTH.plugin AUTH.priority AUTH.txn_id AUTH.version AUTH_CHALLENGE AUTH_CHALLENGE.challenge \
                AUTH_CHALLENGE.challenge.auth_data AUTH_CHALLENGE.challenge.auth_method_name AUTH_CHALLENGE.protocol_version \
                AUTH_CHALLENGE.server_version AUTH_RESPONSE AUTH_RESPONSE.client_version AUTH_RESPONSE.flags AUTH_RESPONSE.ledger \
                AUTH_RESPONSE.payload AUTH_RESPONSE.plugin AUTH_RESPONSE.priority AUTH_RESPONSE.protocol_version AUTH_RESPONSE.response \
                AUTH_RESPONSE.response.auth_data AUTH_RESPONSE.response.auth_method_name AUTH_RESPONSE.status AUTH_RESPONSE.txn_id \
                AUTH_RESPONSE.version BATCH_READ BATCH_READ.entry BATCH_READ.flags BATCH_READ.ledger BATCH_READ.master_key \
                BATCH_READ.max_count BATCH_READ.max_size BATCH_READ.priority BATCH_READ.request_id BATCH_READ.txn_id BATCH_READ.version \
                BATCH_READ_RESPONSE BATCH_READ_RESPONSE.data BATCH_READ_RESPONSE.data.kind BATCH_READ_RESPONSE.data_size \
                BATCH_READ_RESPONSE.digest BATCH_READ_RESPONSE.entries BATCH_READ_RESPONSE.entries.data_size \
                BATCH_READ_RESPONSE.entries.digest BATCH_READ_RESPONSE.entries.entry BATCH_READ_RESPONSE.entries.last_add_confirmed \
                BATCH_READ_RESPONSE.entries.ledger BATCH_READ_RESPONSE.entries.length BATCH_READ_RESPONSE.entry \
                BATCH_READ_RESPONSE.flags BATCH_READ_RESPONSE.last_add_confirmed BATCH_READ_RESPONSE.ledger BATCH_READ_RESPONSE.length \
                BATCH_READ_RESPONSE.priority BATCH_READ_RESPONSE.request_id BATCH_READ_RESPONSE.status BATCH_READ_RESPONSE.stored_entry \
                BATCH_READ_RESPONSE.stored_ledger BATCH_READ_RESPONSE.txn_id BATCH_READ_RESPONSE.version CLOSE_CONSUMER \
                CLOSE_CONSUMER.assignedBrokerServiceUrl CLOSE_CONSUMER.assignedBrokerServiceUrlTls CLOSE_CONSUMER.consumer_id \
                CLOSE_CONSUMER.request_id CLOSE_PRODUCER CLOSE_PRODUCER.assignedBrokerServiceUrl \
                CLOSE_PRODUCER.assignedBrokerServiceUrlTls CLOSE_PRODUCER.producer_id CLOSE_PRODUCER.request_id CONNECT \
                CONNECT.auth_data CONNECT.auth_method CONNECT.auth_method_name CONNECT.client_version CONNECT.feature_flags \
                CONNECT.feature_flags.supports_auth_refresh CONNECT.feature_flags.supports_broker_entry_metadata \
                CONNECT.feature_flags.supports_get_partitioned_metadata_without_auto_creation \
                CONNECT.feature_flags.supports_partial_producer CONNECT.feature_flags.supports_repl_dedup_by_lid_and_eid \
                CONNECT.feature_flags.supports_scalable_topics CONNECT.feature_flags.supports_tc_metadata_discovery \
                CONNECT.feature_flags.supports_topic_watcher_reconcile CONNECT.feature_flags.supports_topic_watchers \
                CONNECT.original_auth_data CONNECT.original_auth_method CONNECT.original_principal CONNECT.protocol_version \
                CONNECT.proxy_to_broker_url CONNECT.proxy_version CONNECTED CONNECTED.feature_flags \
                CONNECTED.feature_flags.supports_auth_refresh CONNECTED.feature_flags.supports_broker_entry_metadata \
                CONNECTED.feature_flags.supports_get_partitioned_metadata_without_auto_creation \
                CONNECTED.feature_flags.supports_partial_producer CONNECTED.feature_flags.supports_repl_dedup_by_lid_and_eid \
                CONNECTED.feature_flags.supports_scalable_topics CONNECTED.feature_flags.supports_tc_metadata_discovery \
                CONNECTED.feature_flags.supports_topic_watcher_reconcile CONNECTED.feature_flags.supports_topic_watchers \
                CONNECTED.max_message_size CONNECTED.protocol_version CONNECTED.server_version CONSUMER_STATS CONSUMER_STATS.consumer_id \
                CONSUMER_STATS.request_id CONSUMER_STATS_RESPONSE CONSUMER_STATS_RESPONSE.address \
                CONSUMER_STATS_RESPONSE.availablePermits CONSUMER_STATS_RESPONSE.blockedConsumerOnUnackedMsgs \
                CONSUMER_STATS_RESPONSE.connectedSince CONSUMER_STATS_RESPONSE.consumerName CONSUMER_STATS_RESPONSE.error_code \
                CONSUMER_STATS_RESPONSE.error_message CONSUMER_STATS_RESPONSE.messageAckRate CONSUMER_STATS_RESPONSE.msgBacklog \
                CONSUMER_STATS_RESPONSE.msgRateExpired CONSUMER_STATS_RESPONSE.msgRateOut CONSUMER_STATS_RESPONSE.msgRateRedeliver \
                CONSUMER_STATS_RESPONSE.msgThroughputOut CONSUMER_STATS_RESPONSE.request_id CONSUMER_STATS_RESPONSE.type \
                CONSUMER_STATS_RESPONSE.unackedMessages END_TXN END_TXN.request_id END_TXN.scalable END_TXN.txn_action \
                END_TXN.txnid_least_bits END_TXN.txnid_most_bits END_TXN_ON_PARTITION END_TXN_ON_PARTITION.request_id \
                END_TXN_ON_PARTITION.topic END_TXN_ON_PARTITION.txn_action END_TXN_ON_PARTITION.txnid_least_bits \
                END_TXN_ON_PARTITION.txnid_least_bits_of_low_watermark END_TXN_ON_PARTITION.txnid_most_bits \
                END_TXN_ON_PARTITION_RESPONSE END_TXN_ON_PARTITION_RESPONSE.error END_TXN_ON_PARTITION_RESPONSE.message \
                END_TXN_ON_PARTITION_RESPONSE.request_id END_TXN_ON_PARTITION_RESPONSE.txnid_least_bits \
                END_TXN_ON_PARTITION_RESPONSE.txnid_most_bits END_TXN_ON_SUBSCRIPTION END_TXN_ON_SUBSCRIPTION.request_id \
                END_TXN_ON_SUBSCRIPTION.subscription END_TXN_ON_SUBSCRIPTION.subscription.subscription \
                END_TXN_ON_SUBSCRIPTION.subscription.topic END_TXN_ON_SUBSCRIPTION.txn_action END_TXN_ON_SUBSCRIPTION.txnid_least_bits \
                END_TXN_ON_SUBSCRIPTION.txnid_least_bits_of_low_watermark END_TXN_ON_SUBSCRIPTION.txnid_most_bits \
                END_TXN_ON_SUBSCRIPTION_RESPONSE END_TXN_ON_SUBSCRIPTION_RESPONSE.error END_TXN_ON_SUBSCRIPTION_RESPONSE.message \
                END_TXN_ON_SUBSCRIPTION_RESPONSE.request_id END_TXN_ON_SUBSCRIPTION_RESPONSE.txnid_least_bits \
                END_TXN_ON_SUBSCRIPTION_RESPONSE.txnid_most_bits END_TXN_RESPONSE END_TXN_RESPONSE.error END_TXN_RESPONSE.message \
                END_TXN_RESPONSE.request_id END_TXN_RESPONSE.txnid_least_bits END_TXN_RESPONSE.txnid_most_bits ERROR ERROR.error \
                ERROR.message ERROR.request_id FETCH FETCH.max_size FETCH.offset FETCH.partition FETCH.topic FETCH_RESPONSE \
                FETCH_RESPONSE.cut FETCH_RESPONSE.error FETCH_RESPONSE.messages_size FLOW FLOW.consumer_id FLOW.messagePermits \
                FORCE_LEDGER FORCE_LEDGER.flags FORCE_LEDGER.ledger FORCE_LEDGER.priority FORCE_LEDGER.txn_id FORCE_LEDGER.version \
                FORCE_LEDGER_RESPONSE FORCE_LEDGER_RESPONSE.flags FORCE_LEDGER_RESPONSE.ledger FORCE_LEDGER_RESPONSE.priority \
                FORCE_LEDGER_RESPONSE.status FORCE_LEDGER_RESPONSE.txn_id FORCE_LEDGER_RESPONSE.version GET_BOOKIE_INFO \
                GET_BOOKIE_INFO.flags GET_BOOKIE_INFO.ledger GET_BOOKIE_INFO.priority GET_BOOKIE_INFO.requested GET_BOOKIE_INFO.txn_id \
                GET_BOOKIE_INFO.version GET_BOOKIE_INFO_RESPONSE GET_BOOKIE_INFO_RESPONSE.flags GET_BOOKIE_INFO_RESPONSE.free_bytes \
                GET_BOOKIE_INFO_RESPONSE.ledger GET_BOOKIE_INFO_RESPONSE.priority GET_BOOKIE_INFO_RESPONSE.status \
                GET_BOOKIE_INFO_RESPONSE.total_bytes GET_BOOKIE_INFO_RESPONSE.txn_id GET_BOOKIE_INFO_RESPONSE.version \
                GET_LAST_MESSAGE_ID GET_LAST_MESSAGE_ID.consumer_id GET_LAST_MESSAGE_ID.request_id GET_LAST_MESSAGE_ID_RESPONSE \
                GET_LAST_MESSAGE_ID_RESPONSE.consumer_mark_delete_position \
                GET_LAST_MESSAGE_ID_RESPONSE.consumer_mark_delete_position.ack_set \
                GET_LAST_MESSAGE_ID_RESPONSE.consumer_mark_delete_position.batch_index \
                GET_LAST_MESSAGE_ID_RESPONSE.consumer_mark_delete_position.batch_size \
                GET_LAST_MESSAGE_ID_RESPONSE.consumer_mark_delete_position.entryId \
                GET_LAST_MESSAGE_ID_RESPONSE.consumer_mark_delete_position.first_chunk_message_id \
                GET_LAST_MESSAGE_ID_RESPONSE.consumer_mark_delete_position.ledgerId \
                GET_LAST_MESSAGE_ID_RESPONSE.consumer_mark_delete_position.partition GET_LAST_MESSAGE_ID_RESPONSE.last_message_id \
                GET_LAST_MESSAGE_ID_RESPONSE.last_message_id.ack_set GET_LAST_MESSAGE_ID_RESPONSE.last_message_id.batch_index \
                GET_LAST_MESSAGE_ID_RESPONSE.last_message_id.batch_size GET_LAST_MESSAGE_ID_RESPONSE.last_message_id.entryId \
                GET_LAST_MESSAGE_ID_RESPONSE.last_message_id.first_chunk_message_id \
                GET_LAST_MESSAGE_ID_RESPONSE.last_message_id.ledgerId GET_LAST_MESSAGE_ID_RESPONSE.last_message_id.partition \
                GET_LAST_MESSAGE_ID_RESPONSE.request_id GET_OR_CREATE_SCHEMA GET_OR_CREATE_SCHEMA.producerName \
                GET_OR_CREATE_SCHEMA.request_id GET_OR_CREATE_SCHEMA.schema GET_OR_CREATE_SCHEMA.schema.name \
                GET_OR_CREATE_SCHEMA.schema.properties GET_OR_CREATE_SCHEMA.schema.properties.key \
                GET_OR_CREATE_SCHEMA.schema.properties.value GET_OR_CREATE_SCHEMA.schema.schema_data GET_OR_CREATE_SCHEMA.schema.type \
                GET_OR_CREATE_SCHEMA.topic GET_OR_CREATE_SCHEMA_RESPONSE GET_OR_CREATE_SCHEMA_RESPONSE.error_code \
                GET_OR_CREATE_SCHEMA_RESPONSE.error_message GET_OR_CREATE_SCHEMA_RESPONSE.request_id \
                GET_OR_CREATE_SCHEMA_RESPONSE.schema_version GET_SCHEMA GET_SCHEMA.request_id GET_SCHEMA.schema_version GET_SCHEMA.topic \
                GET_SCHEMA_RESPONSE GET_SCHEMA_RESPONSE.error_code GET_SCHEMA_RESPONSE.error_message GET_SCHEMA_RESPONSE.request_id \
                GET_SCHEMA_RESPONSE.schema GET_SCHEMA_RESPONSE.schema.name GET_SCHEMA_RESPONSE.schema.properties \
                GET_SCHEMA_RESPONSE.schema.properties.key GET_SCHEMA_RESPONSE.schema.properties.value \
                GET_SCHEMA_RESPONSE.schema.schema_data GET_SCHEMA_RESPONSE.schema.type GET_SCHEMA_RESPONSE.schema_version \
                GET_TOPICS_OF_NAMESPACE GET_TOPICS_OF_NAMESPACE.mode GET_TOPICS_OF_NAMESPACE.namespace \
                GET_TOPICS_OF_NAMESPACE.properties GET_TOPICS_OF_NAMESPACE.properties.key GET_TOPICS_OF_NAMESPACE.properties.value \
                GET_TOPICS_OF_NAMESPACE.request_id GET_TOPICS_OF_NAMESPACE.topics_hash GET_TOPICS_OF_NAMESPACE.topics_pattern \
                GET_TOPICS_OF_NAMESPACE_RESPONSE GET_TOPICS_OF_NAMESPACE_RESPONSE.changed GET_TOPICS_OF_NAMESPACE_RESPONSE.filtered \
                GET_TOPICS_OF_NAMESPACE_RESPONSE.request_id GET_TOPICS_OF_NAMESPACE_RESPONSE.topics \
                GET_TOPICS_OF_NAMESPACE_RESPONSE.topics_hash LIST_ENTRIES LIST_ENTRIES.flags LIST_ENTRIES.ledger LIST_ENTRIES.priority \
                LIST_ENTRIES.txn_id LIST_ENTRIES.version LIST_ENTRIES_RESPONSE LIST_ENTRIES_RESPONSE.availability \
                LIST_ENTRIES_RESPONSE.flags LIST_ENTRIES_RESPONSE.ledger LIST_ENTRIES_RESPONSE.priority LIST_ENTRIES_RESPONSE.status \
                LIST_ENTRIES_RESPONSE.txn_id LIST_ENTRIES_RESPONSE.version LOOKUP LOOKUP.advertised_listener_name LOOKUP.authoritative \
                LOOKUP.original_auth_data LOOKUP.original_auth_method LOOKUP.original_principal LOOKUP.properties LOOKUP.properties.key \
                LOOKUP.properties.value LOOKUP.request_id LOOKUP.topic LOOKUP_RESPONSE LOOKUP_RESPONSE.authoritative \
                LOOKUP_RESPONSE.brokerServiceUrl LOOKUP_RESPONSE.brokerServiceUrlTls LOOKUP_RESPONSE.error LOOKUP_RESPONSE.message \
                LOOKUP_RESPONSE.proxy_through_service_url LOOKUP_RESPONSE.request_id LOOKUP_RESPONSE.response MESSAGE MESSAGE.ack_set \
                MESSAGE.consumer_epoch MESSAGE.consumer_id MESSAGE.message_id MESSAGE.message_id.ack_set MESSAGE.message_id.batch_index \
                MESSAGE.message_id.batch_size MESSAGE.message_id.entryId MESSAGE.message_id.first_chunk_message_id \
                MESSAGE.message_id.ledgerId MESSAGE.message_id.partition MESSAGE.redelivery_count MULTIFETCH MULTIFETCH.fetches \
                MULTIFETCH.fetches.max_size MULTIFETCH.fetches.offset MULTIFETCH.fetches.partition MULTIFETCH.fetches.topic \
                MULTIFETCH_RESPONSE MULTIFETCH_RESPONSE.error MULTIFETCH_RESPONSE.parts MULTIFETCH_RESPONSE.parts.cut \
                MULTIFETCH_RESPONSE.parts.error MULTIFETCH_RESPONSE.parts.messages_size MULTIPRODUCE MULTIPRODUCE.produces \
                MULTIPRODUCE.produces.messages_size MULTIPRODUCE.produces.partition MULTIPRODUCE.produces.topic NEW_TXN \
                NEW_TXN.request_id NEW_TXN.scalable NEW_TXN.tc_id NEW_TXN.txn_ttl_millis NEW_TXN_RESPONSE NEW_TXN_RESPONSE.error \
                NEW_TXN_RESPONSE.message NEW_TXN_RESPONSE.request_id NEW_TXN_RESPONSE.txnid_least_bits NEW_TXN_RESPONSE.txnid_most_bits \
                OFFSETS OFFSETS.max_offsets OFFSETS.partition OFFSETS.time OFFSETS.topic OFFSETS_RESPONSE OFFSETS_RESPONSE.error \
                OFFSETS_RESPONSE.offsets PARTITIONED_METADATA PARTITIONED_METADATA.metadata_auto_creation_enabled \
                PARTITIONED_METADATA.original_auth_data PARTITIONED_METADATA.original_auth_method \
                PARTITIONED_METADATA.original_principal PARTITIONED_METADATA.request_id PARTITIONED_METADATA.topic \
                PARTITIONED_METADATA_RESPONSE PARTITIONED_METADATA_RESPONSE.error PARTITIONED_METADATA_RESPONSE.message \
                PARTITIONED_METADATA_RESPONSE.partitions PARTITIONED_METADATA_RESPONSE.request_id PARTITIONED_METADATA_RESPONSE.response \
                PING PONG PRODUCE PRODUCE.messages_size PRODUCE.partition PRODUCE.topic PRODUCER PRODUCER.encrypted PRODUCER.epoch \
                PRODUCER.initial_subscription_name PRODUCER.metadata PRODUCER.metadata.key PRODUCER.metadata.value \
                PRODUCER.producer_access_mode PRODUCER.producer_id PRODUCER.producer_name PRODUCER.request_id PRODUCER.schema \
                PRODUCER.schema.name PRODUCER.schema.properties PRODUCER.schema.properties.key PRODUCER.schema.properties.value \
                PRODUCER.schema.schema_data PRODUCER.schema.type PRODUCER.topic PRODUCER.topic_epoch PRODUCER.txn_enabled \
                PRODUCER.user_provided_producer_name PRODUCER_SUCCESS PRODUCER_SUCCESS.last_sequence_id PRODUCER_SUCCESS.producer_name \
                PRODUCER_SUCCESS.producer_ready PRODUCER_SUCCESS.request_id PRODUCER_SUCCESS.schema_version PRODUCER_SUCCESS.topic_epoch \
                RANGE_ADD RANGE_ADD.flags RANGE_ADD.ledger RANGE_ADD.priority RANGE_ADD.txn_id RANGE_ADD.version RANGE_ADD_RESPONSE \
                RANGE_ADD_RESPONSE.flags RANGE_ADD_RESPONSE.ledger RANGE_ADD_RESPONSE.priority RANGE_ADD_RESPONSE.status \
                RANGE_ADD_RESPONSE.txn_id RANGE_ADD_RESPONSE.version RANGE_READ RANGE_READ.flags RANGE_READ.ledger RANGE_READ.priority \
                RANGE_READ.txn_id RANGE_READ.version RANGE_READ_RESPONSE RANGE_READ_RESPONSE.flags RANGE_READ_RESPONSE.ledger \
                RANGE_READ_RESPONSE.priority RANGE_READ_RESPONSE.status RANGE_READ_RESPONSE.txn_id RANGE_READ_RESPONSE.version \
                REACHED_END_OF_TOPIC REACHED_END_OF_TOPIC.consumer_id READ READ.entry READ.flags READ.ledger READ.master_key \
                READ.previous_lac READ.priority READ.timeout READ.txn_id READ.version READ_LAC READ_LAC.flags READ_LAC.ledger \
                READ_LAC.priority READ_LAC.txn_id READ_LAC.version READ_LAC_RESPONSE READ_LAC_RESPONSE.data READ_LAC_RESPONSE.data.kind \
                READ_LAC_RESPONSE.data_size READ_LAC_RESPONSE.digest READ_LAC_RESPONSE.entry READ_LAC_RESPONSE.flags \
                READ_LAC_RESPONSE.lac_body READ_LAC_RESPONSE.last_add_confirmed READ_LAC_RESPONSE.ledger READ_LAC_RESPONSE.length \
                READ_LAC_RESPONSE.priority READ_LAC_RESPONSE.status READ_LAC_RESPONSE.stored_entry READ_LAC_RESPONSE.stored_ledger \
                READ_LAC_RESPONSE.txn_id READ_LAC_RESPONSE.version READ_RESPONSE READ_RESPONSE.data READ_RESPONSE.data.kind \
                READ_RESPONSE.data_size READ_RESPONSE.digest READ_RESPONSE.entry READ_RESPONSE.flags READ_RESPONSE.lac_time \
                READ_RESPONSE.last_add_confirmed READ_RESPONSE.ledger READ_RESPONSE.length READ_RESPONSE.max_lac READ_RESPONSE.priority \
                READ_RESPONSE.status READ_RESPONSE.stored_entry READ_RESPONSE.stored_ledger READ_RESPONSE.txn_id READ_RESPONSE.version \
                REDELIVER_UNACKNOWLEDGED_MESSAGES REDELIVER_UNACKNOWLEDGED_MESSAGES.consumer_epoch \
                REDELIVER_UNACKNOWLEDGED_MESSAGES.consumer_id REDELIVER_UNACKNOWLEDGED_MESSAGES.message_ids \
                REDELIVER_UNACKNOWLEDGED_MESSAGES.message_ids.ack_set REDELIVER_UNACKNOWLEDGED_MESSAGES.message_ids.batch_index \
                REDELIVER_UNACKNOWLEDGED_MESSAGES.message_ids.batch_size REDELIVER_UNACKNOWLEDGED_MESSAGES.message_ids.entryId \
                REDELIVER_UNACKNOWLEDGED_MESSAGES.message_ids.first_chunk_message_id \
                REDELIVER_UNACKNOWLEDGED_MESSAGES.message_ids.ledgerId REDELIVER_UNACKNOWLEDGED_MESSAGES.message_ids.partition RESPONSE \
                RESPONSE.error SCALABLE_TOPIC_ASSIGNMENT_UPDATE SCALABLE_TOPIC_ASSIGNMENT_UPDATE.assignment \
                SCALABLE_TOPIC_ASSIGNMENT_UPDATE.assignment.layout_epoch SCALABLE_TOPIC_ASSIGNMENT_UPDATE.assignment.segments \
                SCALABLE_TOPIC_ASSIGNMENT_UPDATE.assignment.segments.bucket_ranges \
                SCALABLE_TOPIC_ASSIGNMENT_UPDATE.assignment.segments.bucket_ranges.end \
                SCALABLE_TOPIC_ASSIGNMENT_UPDATE.assignment.segments.bucket_ranges.start \
                SCALABLE_TOPIC_ASSIGNMENT_UPDATE.assignment.segments.hash_end \
                SCALABLE_TOPIC_ASSIGNMENT_UPDATE.assignment.segments.hash_start \
                SCALABLE_TOPIC_ASSIGNMENT_UPDATE.assignment.segments.segment_id \
                SCALABLE_TOPIC_ASSIGNMENT_UPDATE.assignment.segments.segment_topic SCALABLE_TOPIC_ASSIGNMENT_UPDATE.consumer_id \
                SCALABLE_TOPIC_CLOSE SCALABLE_TOPIC_CLOSE.session_id SCALABLE_TOPIC_LOOKUP SCALABLE_TOPIC_LOOKUP.create_if_missing \
                SCALABLE_TOPIC_LOOKUP.session_id SCALABLE_TOPIC_LOOKUP.topic SCALABLE_TOPIC_SUBSCRIBE \
                SCALABLE_TOPIC_SUBSCRIBE.consumer_id SCALABLE_TOPIC_SUBSCRIBE.consumer_name SCALABLE_TOPIC_SUBSCRIBE.consumer_type \
                SCALABLE_TOPIC_SUBSCRIBE.request_id SCALABLE_TOPIC_SUBSCRIBE.subscription SCALABLE_TOPIC_SUBSCRIBE.topic \
                SCALABLE_TOPIC_SUBSCRIBE_RESPONSE SCALABLE_TOPIC_SUBSCRIBE_RESPONSE.assignment \
                SCALABLE_TOPIC_SUBSCRIBE_RESPONSE.assignment.layout_epoch SCALABLE_TOPIC_SUBSCRIBE_RESPONSE.assignment.segments \
                SCALABLE_TOPIC_SUBSCRIBE_RESPONSE.assignment.segments.bucket_ranges \
                SCALABLE_TOPIC_SUBSCRIBE_RESPONSE.assignment.segments.bucket_ranges.end \
                SCALABLE_TOPIC_SUBSCRIBE_RESPONSE.assignment.segments.bucket_ranges.start \
                SCALABLE_TOPIC_SUBSCRIBE_RESPONSE.assignment.segments.hash_end \
                SCALABLE_TOPIC_SUBSCRIBE_RESPONSE.assignment.segments.hash_start \
                SCALABLE_TOPIC_SUBSCRIBE_RESPONSE.assignment.segments.segment_id \
                SCALABLE_TOPIC_SUBSCRIBE_RESPONSE.assignment.segments.segment_topic SCALABLE_TOPIC_SUBSCRIBE_RESPONSE.error \
                SCALABLE_TOPIC_SUBSCRIBE_RESPONSE.message SCALABLE_TOPIC_SUBSCRIBE_RESPONSE.request_id SCALABLE_TOPIC_UPDATE \
                SCALABLE_TOPIC_UPDATE.dag SCALABLE_TOPIC_UPDATE.dag.controller_broker_url \
                SCALABLE_TOPIC_UPDATE.dag.controller_broker_url_tls SCALABLE_TOPIC_UPDATE.dag.epoch \
                SCALABLE_TOPIC_UPDATE.dag.segment_brokers SCALABLE_TOPIC_UPDATE.dag.segment_brokers.broker_url \
                SCALABLE_TOPIC_UPDATE.dag.segment_brokers.broker_url_tls SCALABLE_TOPIC_UPDATE.dag.segment_brokers.segment_id \
                SCALABLE_TOPIC_UPDATE.dag.segments SCALABLE_TOPIC_UPDATE.dag.segments.child_ids \
                SCALABLE_TOPIC_UPDATE.dag.segments.created_at_epoch SCALABLE_TOPIC_UPDATE.dag.segments.created_at_ms \
                SCALABLE_TOPIC_UPDATE.dag.segments.entry_bucket_splits SCALABLE_TOPIC_UPDATE.dag.segments.hash_end \
                SCALABLE_TOPIC_UPDATE.dag.segments.hash_start SCALABLE_TOPIC_UPDATE.dag.segments.legacy_topic_name \
                SCALABLE_TOPIC_UPDATE.dag.segments.parent_ids SCALABLE_TOPIC_UPDATE.dag.segments.sealed_at_epoch \
                SCALABLE_TOPIC_UPDATE.dag.segments.sealed_at_ms SCALABLE_TOPIC_UPDATE.dag.segments.segment_id \
                SCALABLE_TOPIC_UPDATE.dag.segments.state SCALABLE_TOPIC_UPDATE.error SCALABLE_TOPIC_UPDATE.message \
                SCALABLE_TOPIC_UPDATE.resolved_topic_name SCALABLE_TOPIC_UPDATE.session_id SEEK SEEK.consumer_id SEEK.message_id \
                SEEK.message_id.ack_set SEEK.message_id.batch_index SEEK.message_id.batch_size SEEK.message_id.entryId \
                SEEK.message_id.first_chunk_message_id SEEK.message_id.ledgerId SEEK.message_id.partition SEEK.message_publish_time \
                SEEK.request_id SEND SEND.highest_sequence_id SEND.is_chunk SEND.marker SEND.message_id SEND.message_id.ack_set \
                SEND.message_id.batch_index SEND.message_id.batch_size SEND.message_id.entryId SEND.message_id.first_chunk_message_id \
                SEND.message_id.ledgerId SEND.message_id.partition SEND.num_messages SEND.producer_id SEND.sequence_id \
                SEND.txnid_least_bits SEND.txnid_most_bits SEND_ERROR SEND_ERROR.error SEND_ERROR.message SEND_ERROR.producer_id \
                SEND_ERROR.sequence_id SEND_RECEIPT SEND_RECEIPT.highest_sequence_id SEND_RECEIPT.message_id \
                SEND_RECEIPT.message_id.ack_set SEND_RECEIPT.message_id.batch_index SEND_RECEIPT.message_id.batch_size \
                SEND_RECEIPT.message_id.entryId SEND_RECEIPT.message_id.first_chunk_message_id SEND_RECEIPT.message_id.ledgerId \
                SEND_RECEIPT.message_id.partition SEND_RECEIPT.producer_id SEND_RECEIPT.sequence_id START_TLS START_TLS.flags \
                START_TLS.ledger START_TLS.priority START_TLS.txn_id START_TLS.version START_TLS_RESPONSE START_TLS_RESPONSE.flags \
                START_TLS_RESPONSE.ledger START_TLS_RESPONSE.priority START_TLS_RESPONSE.status START_TLS_RESPONSE.txn_id \
                START_TLS_RESPONSE.version SUBSCRIBE SUBSCRIBE.consumer_epoch SUBSCRIBE.consumer_id SUBSCRIBE.consumer_name \
                SUBSCRIBE.durable SUBSCRIBE.force_topic_creation SUBSCRIBE.initialPosition SUBSCRIBE.keySharedMeta \
                SUBSCRIBE.keySharedMeta.allowOutOfOrderDelivery SUBSCRIBE.keySharedMeta.hashRanges \
                SUBSCRIBE.keySharedMeta.hashRanges.end SUBSCRIBE.keySharedMeta.hashRanges.start SUBSCRIBE.keySharedMeta.keySharedMode \
                SUBSCRIBE.metadata SUBSCRIBE.metadata.key SUBSCRIBE.metadata.value SUBSCRIBE.priority_level SUBSCRIBE.read_compacted \
                SUBSCRIBE.replicate_subscription_state SUBSCRIBE.request_id SUBSCRIBE.schema SUBSCRIBE.schema.name \
                SUBSCRIBE.schema.properties SUBSCRIBE.schema.properties.key SUBSCRIBE.schema.properties.value \
                SUBSCRIBE.schema.schema_data SUBSCRIBE.schema.type SUBSCRIBE.start_message_id SUBSCRIBE.start_message_id.ack_set \
                SUBSCRIBE.start_message_id.batch_index SUBSCRIBE.start_message_id.batch_size SUBSCRIBE.start_message_id.entryId \
                SUBSCRIBE.start_message_id.first_chunk_message_id SUBSCRIBE.start_message_id.ledgerId \
                SUBSCRIBE.start_message_id.partition SUBSCRIBE.start_message_rollback_duration_sec SUBSCRIBE.subType \
                SUBSCRIBE.subscription SUBSCRIBE.subscription_properties SUBSCRIBE.subscription_properties.key \
                SUBSCRIBE.subscription_properties.value SUBSCRIBE.topic SUCCESS SUCCESS.request_id SUCCESS.schema SUCCESS.schema.name \
                SUCCESS.schema.properties SUCCESS.schema.properties.key SUCCESS.schema.properties.value SUCCESS.schema.schema_data \
                SUCCESS.schema.type TC_CLIENT_CONNECT_REQUEST TC_CLIENT_CONNECT_REQUEST.request_id TC_CLIENT_CONNECT_REQUEST.scalable \
                TC_CLIENT_CONNECT_REQUEST.tc_id TC_CLIENT_CONNECT_RESPONSE TC_CLIENT_CONNECT_RESPONSE.error \
                TC_CLIENT_CONNECT_RESPONSE.message TC_CLIENT_CONNECT_RESPONSE.request_id TOPIC_MIGRATED TOPIC_MIGRATED.brokerServiceUrl \
                TOPIC_MIGRATED.brokerServiceUrlTls TOPIC_MIGRATED.resource_id TOPIC_MIGRATED.resource_type UNSUBSCRIBE \
                UNSUBSCRIBE.consumer_id UNSUBSCRIBE.force UNSUBSCRIBE.request_id WATCH_SCALABLE_TOPICS \
                WATCH_SCALABLE_TOPICS.current_hash WATCH_SCALABLE_TOPICS.namespace WATCH_SCALABLE_TOPICS.property_filters \
                WATCH_SCALABLE_TOPICS.property_filters.key WATCH_SCALABLE_TOPICS.property_filters.value WATCH_SCALABLE_TOPICS.watch_id \
                WATCH_SCALABLE_TOPICS_CLOSE WATCH_SCALABLE_TOPICS_CLOSE.watch_id WATCH_SCALABLE_TOPICS_UPDATE \
                WATCH_SCALABLE_TOPICS_UPDATE.diff WATCH_SCALABLE_TOPICS_UPDATE.diff.added WATCH_SCALABLE_TOPICS_UPDATE.diff.removed \
                WATCH_SCALABLE_TOPICS_UPDATE.error WATCH_SCALABLE_TOPICS_UPDATE.message WATCH_SCALABLE_TOPICS_UPDATE.snapshot \
                WATCH_SCALABLE_TOPICS_UPDATE.snapshot.topics WATCH_SCALABLE_TOPICS_UPDATE.watch_id WATCH_TC_ASSIGNMENTS \
                WATCH_TC_ASSIGNMENTS.watch_id WATCH_TC_ASSIGNMENTS_CLOSE WATCH_TC_ASSIGNMENTS_CLOSE.watch_id WATCH_TC_ASSIGNMENTS_UPDATE \
                WATCH_TC_ASSIGNMENTS_UPDATE.error WATCH_TC_ASSIGNMENTS_UPDATE.message WATCH_TC_ASSIGNMENTS_UPDATE.snapshot \
                WATCH_TC_ASSIGNMENTS_UPDATE.snapshot.assignments WATCH_TC_ASSIGNMENTS_UPDATE.snapshot.assignments.broker_service_url \
                WATCH_TC_ASSIGNMENTS_UPDATE.snapshot.assignments.broker_service_url_tls \
                WATCH_TC_ASSIGNMENTS_UPDATE.snapshot.assignments.tc_id WATCH_TC_ASSIGNMENTS_UPDATE.snapshot.parallelism \
                WATCH_TC_ASSIGNMENTS_UPDATE.watch_id WATCH_TOPIC_LIST WATCH_TOPIC_LIST.namespace WATCH_TOPIC_LIST.request_id \
                WATCH_TOPIC_LIST.topics_hash WATCH_TOPIC_LIST.topics_pattern WATCH_TOPIC_LIST.watcher_id WATCH_TOPIC_LIST_CLOSE \
                WATCH_TOPIC_LIST_CLOSE.request_id WATCH_TOPIC_LIST_CLOSE.watcher_id WATCH_TOPIC_LIST_SUCCESS \
                WATCH_TOPIC_LIST_SUCCESS.request_id WATCH_TOPIC_LIST_SUCCESS.topic WATCH_TOPIC_LIST_SUCCESS.topics_hash \
                WATCH_TOPIC_LIST_SUCCESS.watcher_id WATCH_TOPIC_UPDATE WATCH_TOPIC_UPDATE.deleted_topics WATCH_TOPIC_UPDATE.new_topics \
                WATCH_TOPIC_UPDATE.topics_hash WATCH_TOPIC_UPDATE.watcher_id WRITE_LAC WRITE_LAC.flags WRITE_LAC.lac WRITE_LAC.lac_body \
                WRITE_LAC.ledger WRITE_LAC.master_key WRITE_LAC.priority WRITE_LAC.txn_id WRITE_LAC.version WRITE_LAC_RESPONSE \
                WRITE_LAC_RESPONSE.flags WRITE_LAC_RESPONSE.ledger WRITE_LAC_RESPONSE.priority WRITE_LAC_RESPONSE.status \
                WRITE_LAC_RESPONSE.txn_id WRITE_LAC_RESPONSE.version ack ack_frame ack_ns ack_time acknowledged auth_method batch_index \
                batch_size broker_entry_metadata broker_entry_metadata.broker_timestamp broker_entry_metadata.index broker_time checksum \
                checksum.computed checksum.status checksum.stored checksum_computed checksum_status checksum_stored chunks client \
                client.ip client.port client_bytes client_dropped client_frames client_missing client_skipped client_tail client_version \
                closed closed_by code command compression connection consumer_id deliver_at deliveries delivery delivery_frame \
                delivery_ns delivery_time direction dissector encrypted end entry error error_message event_time evidence exchange extra \
                extra.batch_sizes extra.codecs extra.magic extra.next_offset extra.offset extra.partition extra.parts \
                extra.parts.next_offset extra.parts.offset extra.parts.partition extra.parts.topic fields fields.ack_set fields.ack_type \
                fields.address fields.advertised_listener_name fields.assignedBrokerServiceUrl fields.assignedBrokerServiceUrlTls \
                fields.assignment fields.assignment.layout_epoch fields.assignment.segments fields.assignment.segments.bucket_ranges \
                fields.assignment.segments.bucket_ranges.end fields.assignment.segments.bucket_ranges.start \
                fields.assignment.segments.hash_end fields.assignment.segments.hash_start fields.assignment.segments.segment_id \
                fields.assignment.segments.segment_topic fields.auth_data fields.auth_method fields.auth_method_name \
                fields.authoritative fields.availability fields.availablePermits fields.blockedConsumerOnUnackedMsgs \
                fields.brokerServiceUrl fields.brokerServiceUrlTls fields.challenge fields.challenge.auth_data \
                fields.challenge.auth_method_name fields.changed fields.client_version fields.connectedSince fields.consumerName \
                fields.consumer_epoch fields.consumer_id fields.consumer_mark_delete_position \
                fields.consumer_mark_delete_position.ack_set fields.consumer_mark_delete_position.batch_index \
                fields.consumer_mark_delete_position.batch_size fields.consumer_mark_delete_position.entryId \
                fields.consumer_mark_delete_position.first_chunk_message_id fields.consumer_mark_delete_position.ledgerId \
                fields.consumer_mark_delete_position.partition fields.consumer_name fields.consumer_type fields.create_if_missing \
                fields.current_hash fields.cut fields.dag fields.dag.controller_broker_url fields.dag.controller_broker_url_tls \
                fields.dag.epoch fields.dag.segment_brokers fields.dag.segment_brokers.broker_url \
                fields.dag.segment_brokers.broker_url_tls fields.dag.segment_brokers.segment_id fields.dag.segments \
                fields.dag.segments.child_ids fields.dag.segments.created_at_epoch fields.dag.segments.created_at_ms \
                fields.dag.segments.entry_bucket_splits fields.dag.segments.hash_end fields.dag.segments.hash_start \
                fields.dag.segments.legacy_topic_name fields.dag.segments.parent_ids fields.dag.segments.sealed_at_epoch \
                fields.dag.segments.sealed_at_ms fields.dag.segments.segment_id fields.dag.segments.state fields.data fields.data.kind \
                fields.data_size fields.deleted_topics fields.diff fields.diff.added fields.diff.removed fields.digest fields.durable \
                fields.encrypted fields.entries fields.entries.data_size fields.entries.digest fields.entries.entry \
                fields.entries.last_add_confirmed fields.entries.ledger fields.entries.length fields.entry fields.epoch fields.error \
                fields.error_code fields.error_message fields.feature_flags fields.feature_flags.supports_auth_refresh \
                fields.feature_flags.supports_broker_entry_metadata \
                fields.feature_flags.supports_get_partitioned_metadata_without_auto_creation \
                fields.feature_flags.supports_partial_producer fields.feature_flags.supports_repl_dedup_by_lid_and_eid \
                fields.feature_flags.supports_scalable_topics fields.feature_flags.supports_tc_metadata_discovery \
                fields.feature_flags.supports_topic_watcher_reconcile fields.feature_flags.supports_topic_watchers fields.fetches \
                fields.fetches.max_size fields.fetches.offset fields.fetches.partition fields.fetches.topic fields.filtered fields.flags \
                fields.force fields.force_topic_creation fields.free_bytes fields.highest_sequence_id fields.initialPosition \
                fields.initial_subscription_name fields.is_active fields.is_chunk fields.keySharedMeta \
                fields.keySharedMeta.allowOutOfOrderDelivery fields.keySharedMeta.hashRanges fields.keySharedMeta.hashRanges.end \
                fields.keySharedMeta.hashRanges.start fields.keySharedMeta.keySharedMode fields.lac fields.lac_body fields.lac_time \
                fields.last_add_confirmed fields.last_message_id fields.last_message_id.ack_set fields.last_message_id.batch_index \
                fields.last_message_id.batch_size fields.last_message_id.entryId fields.last_message_id.first_chunk_message_id \
                fields.last_message_id.ledgerId fields.last_message_id.partition fields.last_sequence_id fields.ledger fields.length \
                fields.marker fields.master_key fields.max_count fields.max_lac fields.max_message_size fields.max_offsets \
                fields.max_size fields.message fields.messageAckRate fields.messagePermits fields.message_id fields.message_id.ack_set \
                fields.message_id.batch_index fields.message_id.batch_size fields.message_id.entryId \
                fields.message_id.first_chunk_message_id fields.message_id.ledgerId fields.message_id.partition fields.message_ids \
                fields.message_ids.ack_set fields.message_ids.batch_index fields.message_ids.batch_size fields.message_ids.entryId \
                fields.message_ids.first_chunk_message_id fields.message_ids.ledgerId fields.message_ids.partition \
                fields.message_publish_time fields.messages_size fields.metadata fields.metadata.key fields.metadata.value \
                fields.metadata_auto_creation_enabled fields.mode fields.msgBacklog fields.msgRateExpired fields.msgRateOut \
                fields.msgRateRedeliver fields.msgThroughputOut fields.namespace fields.new_topics fields.num_messages fields.offset \
                fields.offsets fields.original_auth_data fields.original_auth_method fields.original_principal fields.partition \
                fields.partitions fields.parts fields.parts.cut fields.parts.error fields.parts.messages_size fields.payload \
                fields.plugin fields.previous_lac fields.priority fields.priority_level fields.producerName fields.producer_access_mode \
                fields.producer_id fields.producer_name fields.producer_ready fields.produces fields.produces.messages_size \
                fields.produces.partition fields.produces.topic fields.properties fields.properties.key fields.properties.value \
                fields.property_filters fields.property_filters.key fields.property_filters.value fields.protocol_version \
                fields.proxy_through_service_url fields.proxy_to_broker_url fields.proxy_version fields.read_compacted \
                fields.redelivery_count fields.replicate_subscription_state fields.request_id fields.requested \
                fields.resolved_topic_name fields.resource_id fields.resource_type fields.response fields.response.auth_data \
                fields.response.auth_method_name fields.scalable fields.schema fields.schema.name fields.schema.properties \
                fields.schema.properties.key fields.schema.properties.value fields.schema.schema_data fields.schema.type \
                fields.schema_version fields.sequence_id fields.server_version fields.session_id fields.snapshot \
                fields.snapshot.assignments fields.snapshot.assignments.broker_service_url \
                fields.snapshot.assignments.broker_service_url_tls fields.snapshot.assignments.tc_id fields.snapshot.parallelism \
                fields.snapshot.topics fields.start_message_id fields.start_message_id.ack_set fields.start_message_id.batch_index \
                fields.start_message_id.batch_size fields.start_message_id.entryId fields.start_message_id.first_chunk_message_id \
                fields.start_message_id.ledgerId fields.start_message_id.partition fields.start_message_rollback_duration_sec \
                fields.status fields.stored_entry fields.stored_ledger fields.subType fields.subscription \
                fields.subscription.subscription fields.subscription.topic fields.subscription_properties \
                fields.subscription_properties.key fields.subscription_properties.value fields.tc_id fields.time fields.timeout \
                fields.topic fields.topic_epoch fields.topics fields.topics_hash fields.topics_pattern fields.total_bytes \
                fields.txn_action fields.txn_enabled fields.txn_id fields.txn_ttl_millis fields.txnid_least_bits \
                fields.txnid_least_bits_of_low_watermark fields.txnid_most_bits fields.type fields.unackedMessages \
                fields.user_provided_producer_name fields.validation_error fields.version fields.watch_id fields.watcher_id \
                fields.write_flags file finding finding.code finding.layer finding.severity findings frame hint index ip key \
                key_is_bytes latency latency_ns layer ledger marker message metadata metadata.chunk_id metadata.compacted_batch_indexes \
                metadata.compression metadata.deliver_at_time metadata.encryption_algo metadata.encryption_keys \
                metadata.encryption_keys.key metadata.encryption_keys.metadata metadata.encryption_keys.metadata.key \
                metadata.encryption_keys.metadata.value metadata.encryption_keys.value metadata.encryption_param metadata.entry_hash_max \
                metadata.entry_hash_min metadata.event_time metadata.highest_sequence_id metadata.marker_type \
                metadata.null_partition_key metadata.null_value metadata.num_chunks_from_msg metadata.num_messages_in_batch \
                metadata.ordering_key metadata.partition_key metadata.partition_key_b64_encoded metadata.producer_name \
                metadata.properties metadata.properties.key metadata.properties.value metadata.publish_time metadata.replicate_to \
                metadata.replicated_from metadata.schema_id metadata.schema_version metadata.sequence_id metadata.total_chunk_msg_size \
                metadata.txnid_least_bits metadata.txnid_most_bits metadata.uncompressed_size metadata.uuid null_value num_messages \
                offset opened ordering_key origin out_of_order packet packets partition payload payload_sha256 payload_size pod port \
                process producer_id producer_name properties protocol_version proxy_source publish_time receipt receipt_frame receipt_ns \
                receipt_time redelivery_count replicated_from replications request response response_file response_packet response_sub \
                retransmitted schema_version send_frame send_time sequence_id server server.ip server.port server_bytes server_dropped \
                server_frames server_missing server_skipped server_tail server_version severity size source span_id start status storage \
                storage_bookies storage_frame storage_ns storage_time storage_writes sub subscription text time tls topic topics \
                trace_id txn value writes
        case findings
            printf '%s\n' ack-after-close ack-cumulative-shared ack-each ack-failed ack-hole ack-unanswered ack-unknown-id acked-redelivered \
                advertised-address-odd auth-failed auth-refresh-unsupported authoritative-dropped backlog-growing batch-corrupt \
                batch-mixes-keys batch-partly-acked batching-unused body-mismatch bookie-refused bookie-silent broker-down broker-outage \
                broker-silent broker-undecided broker-unreachable bytes-awaited bytes-skipped capture-malformed capture-order \
                capture-truncated captured-twice certificate-expires checksum-absent checksum-mismatch chunk-abandoned chunk-cap \
                chunk-dropped chunk-duplicate chunk-incomplete chunk-invalid chunk-missing chunk-size-mismatch chunk-stuck \
                churn-undecided client-not-reading clock-skew command-before-connect command-too-new compression-useless connect-delayed \
                connect-dropped connection-churn connection-closed-by-broker connection-closed-by-client connection-reset \
                connection-unknown consumer-behind consumer-busy consumer-churn consumer-corrupt consumer-id-reused consumer-not-acking \
                consumer-paused consumer-starved consumer-undecided cursor-reset data-after-close dead-lettered decode-lag \
                decompress-bomb decompress-failed decrypt-failed delay-early delay-ignored delay-late delivered-out-of-order \
                delivered-to-both delivery-behind dispatch-limited dissector-failed encrypted-payload end-of-topic entry-damaged \
                failover-flapping fetch-too-small fetched-twice file-unreadable foreign-protocol fragment-incomplete fragment-overlap \
                frame-malformed frame-too-large frame-truncated frame-unfinished http-on-plain-port idle-cut interface-gone invalid-utf8 \
                keepalive-late keepalive-lost key-on-two-consumers key-out-of-order key-shared-blocked ledger-fenced listed-broker-dead \
                lookup-loop memory-cap message-corrupted message-duplicate-dropped message-set-corrupt message-stored-twice \
                message-too-large message-too-large-dropped messages-skipped midstream-start most-dead-lettered most-redelivered \
                nested-too-deep nesting-too-deep network-loss network-stall non-persistent-dropped not-a-capture not-kafka07 not-pulsar \
                num-messages-mismatch offset-out-of-range offset-skipped one-sided-capture overlap-conflict packet-duplicate \
                packet-length-odd packet-malformed packets-dropped packets-skipped partition-skew partition-stuck path-delay \
                pattern-without-topics payload-decoder-failed permits-negative processed-twice produce-lost produce-unconfirmed \
                producer-behind producer-busy producer-churn producer-fenced producer-id-reused producer-replaced producer-waiting \
                proxy-leg-failed proxy-legs published-before-subscription quorum-lost quota-exceeded read-from-storage \
                reader-behind-last-id receiver-queue-one reconnect-loop redeliver-all redelivery-storm redirect-not-followed \
                redirect-unseen regular-cut replication-stalled request-failed request-id-reused request-retried request-storm \
                request-unanswered required-field-missing resend-deduplicated resend-loop reset-between response-mismatch \
                response-unrequested retry-without-close rule-failed schema-incompatible schema-unknown send-unanswered \
                send-without-producer sequence-jump sequence-regression session-cap size-mismatch slow-bookie slow-broker slow-exchange \
                slow-publish snaplen-truncated snappy-framed stream-gap time-backwards time-invalid tls-decrypt-failed \
                tls-handshake-failed tls-key-log-empty tls-key-log-malformed tls-name-mismatch tls-no-secrets tls-on-plain-port \
                tls-secrets-cap token-expired token-expires-soon too-many-requests topic-migrated topic-terminated topic-unloaded \
                trailing-bytes txn-failed txn-open txn-unavailable uncompressed-size-missing unknown-command unknown-enum \
                unknown-link-type unload-burst unload-loop value-undecodable zero-window zlib-unfinished
        case kinds
            printf '%s\n' frame message exchange connection finding journey all
        case registry_sections
            printf '%s\n' brokers topics consumers partitions other notes
        case sections
            printf '%s\n' total connections topics producers subscriptions commands exchanges slowest intervals consumers backlog keys \
                transactions lookups schemas journeys legs bookies ledgers
        case thresholds
            printf '%s\n' ack-after-close-seconds ack-each-acks ack-each-rate ack-hole-early-later ack-hole-early-seconds ack-hole-later \
                ack-hole-seconds ack-unanswered-seconds ack-unknown-id-seconds acked-redelivered-seconds \
                advertised-address-again-seconds advertised-address-lookups auth-challenge-seconds backlog-growing-burst-seconds \
                backlog-growing-entries backlog-growing-factor backlog-growing-rest-seconds backlog-growing-seconds \
                batching-unused-bytes batching-unused-messages batching-unused-rate batching-unused-seconds bookie-silent-seconds \
                broker-down-closing-seconds broker-silent-rate broker-silent-seconds broker-unreachable-seconds \
                broker-unreachable-tries-seconds certificate-expires-days chunk-stuck-seconds churn-busy churn-few-least churn-frames \
                churn-interval-seconds churn-least churn-rate churn-slow-interval-seconds churn-undecided-interval-seconds \
                churn-undecided-least client-not-reading-close-seconds client-not-reading-seconds clock-skew-seconds \
                compression-useless-entries compression-useless-percent connect-dropped-seconds connection-churn-seconds \
                connection-closed-by-client-seconds connection-unknown-seconds consumer-behind-backlog-seconds \
                consumer-behind-beside-factor consumer-behind-beside-seconds consumer-behind-factor consumer-behind-key-shared-entries \
                consumer-behind-key-shared-seconds consumer-behind-long-factor consumer-behind-long-seconds consumer-behind-messages \
                consumer-behind-seconds consumer-churn-held-seconds consumer-churn-messages consumer-id-reused-seconds \
                consumer-not-acking-beside-seconds consumer-not-acking-closed-seconds consumer-not-acking-collecting-seconds \
                consumer-not-acking-first-seconds consumer-not-acking-limit consumer-not-acking-messages \
                consumer-not-acking-older-factor consumer-not-acking-older-seconds consumer-not-acking-seconds \
                consumer-not-acking-stopped-seconds consumer-not-acking-subscription-limit consumer-paused-messages \
                consumer-paused-seconds consumer-paused-times consumer-rhythm-factor consumer-starved-apart-seconds \
                consumer-starved-backlog-seconds consumer-starved-closed-seconds consumer-starved-done-entries \
                consumer-starved-done-messages consumer-starved-done-seconds consumer-starved-done-turns consumer-starved-moments \
                consumer-starved-seconds consumer-stopping-seconds consumer-undecided-hole-turns consumer-undecided-lives \
                consumer-undecided-redeliveries consumer-undecided-seconds consumer-undecided-seeks cursor-reset-settled-seconds \
                dead-holder-seconds delay-at-once-seconds delay-early-seconds delay-late-seconds dispatch-limited-rest-seconds \
                dispatch-limited-rests dispatch-limited-seconds dispatch-limited-share failover-flapping-pause-seconds \
                failover-flapping-returns failover-switch-seconds idle-cut-connections idle-cut-seconds keepalive-lost-closed-seconds \
                keepalive-lost-seconds key-shared-blocked-entries key-shared-blocked-seconds key-shared-delivery-seconds \
                listed-broker-dead-seconds listed-broker-dead-tries lookup-loop-redirects message-too-large-bytes \
                messages-skipped-back-seconds messages-skipped-entries most-dead-lettered-messages most-redelivered-entries \
                most-redelivered-seconds never-opened-seconds partition-skew-entries partition-skew-share partition-stuck-entries \
                partition-stuck-seconds pattern-without-topics-seconds processed-twice-entries processed-twice-seconds \
                produce-lost-seconds producer-behind-growth-seconds producer-behind-seconds producer-behind-sends producer-behind-share \
                producer-churn-sends producer-fenced-back-seconds producer-replaced-seconds producer-waiting-seconds \
                proxy-leg-failed-seconds published-before-seconds read-from-storage-entries reader-behind-seconds \
                receiver-queue-one-flows reconnect-loop-failures reconnect-loop-lifetime-seconds reconnect-loop-pause-seconds \
                redelivery-storm-count redelivery-storm-lives redelivery-storm-nothing-done redelivery-storm-nothing-done-messages \
                redelivery-storm-passed-over redelivery-storm-quick-seeks redelivery-storm-requests-for-all redelivery-storm-retries \
                redelivery-storm-retries-in-all redelivery-storm-retries-seconds redelivery-storm-seek-seconds redelivery-storm-seeks \
                redelivery-storm-seeks-in-all redelivery-storm-unresolved redelivery-storm-window-redeliveries \
                redelivery-storm-window-requests redelivery-storm-window-seconds redirect-idle-seconds \
                redirect-not-followed-beside-lookups redirect-not-followed-lookups regular-cut-back-seconds regular-cut-bytes \
                regular-cut-connections regular-cut-seconds replication-lag-seconds replication-lag-sends replication-lag-share \
                replication-stalled-seconds request-failed-moving-seconds request-failed-noticed-seconds request-retried-seconds \
                request-storm-busy request-storm-pause-seconds request-storm-rate request-storm-requests request-storm-turn-seconds \
                request-unanswered-open-seconds request-unanswered-seconds resend-loop-refusals response-unrequested-attached-seconds \
                send-unanswered-open-seconds send-unanswered-passed-seconds send-unanswered-seconds send-without-producer-known-seconds \
                send-without-producer-seconds send-without-producer-stop-seconds send-without-producer-unaware-seconds \
                slow-bookie-longest-seconds slow-bookie-seconds slow-bookie-times slow-broker-seconds slow-broker-times \
                slow-exchange-back-seconds slow-exchange-connect-seconds slow-exchange-lookup-seconds slow-exchange-open-seconds \
                slow-exchange-seconds slow-exchange-stored-seconds slow-publish-bytes slow-publish-held-seconds \
                slow-publish-jump-seconds slow-publish-longest-seconds slow-publish-median-sends slow-publish-paused-share \
                slow-publish-pauses slow-publish-seconds slow-publish-sends tls-unanswered-seconds token-expires-soon-seconds \
                too-short-seconds topic-unloaded-seek-seconds txn-open-idle-seconds unload-burst-seconds unload-burst-topics \
                unload-loop-seconds unload-loop-times
        case topics
            printf '%s\n' tutorial on-the-wire questions filter reports browse live journeys schemas sql spark configuration errors tshark records \
                findings library adding-a-protocol decode messages stats diagnose report compare browse follow index extract sql mcp \
                wireshark registry live pipeline findings fields help config selftest
        case triggers
            printf '%s\n' any-error ack-after-close ack-cumulative-shared ack-each ack-failed ack-hole ack-unanswered ack-unknown-id \
                acked-redelivered advertised-address-odd auth-failed auth-refresh-unsupported authoritative-dropped backlog-growing \
                batch-corrupt batch-mixes-keys batch-partly-acked batching-unused body-mismatch bookie-refused bookie-silent broker-down \
                broker-outage broker-silent broker-undecided broker-unreachable bytes-awaited bytes-skipped capture-malformed \
                capture-order capture-truncated captured-twice certificate-expires checksum-absent checksum-mismatch chunk-abandoned \
                chunk-cap chunk-dropped chunk-duplicate chunk-incomplete chunk-invalid chunk-missing chunk-size-mismatch chunk-stuck \
                churn-undecided client-not-reading clock-skew command-before-connect command-too-new compression-useless connect-delayed \
                connect-dropped connection-churn connection-closed-by-broker connection-closed-by-client connection-reset \
                connection-unknown consumer-behind consumer-busy consumer-churn consumer-corrupt consumer-id-reused consumer-not-acking \
                consumer-paused consumer-starved consumer-undecided cursor-reset data-after-close dead-lettered decode-lag \
                decompress-bomb decompress-failed decrypt-failed delay-early delay-ignored delay-late delivered-out-of-order \
                delivered-to-both delivery-behind dispatch-limited dissector-failed encrypted-payload end-of-topic entry-damaged \
                failover-flapping fetch-too-small fetched-twice file-unreadable foreign-protocol fragment-incomplete fragment-overlap \
                frame-malformed frame-too-large frame-truncated frame-unfinished http-on-plain-port idle-cut interface-gone invalid-utf8 \
                keepalive-late keepalive-lost key-on-two-consumers key-out-of-order key-shared-blocked ledger-fenced listed-broker-dead \
                lookup-loop memory-cap message-corrupted message-duplicate-dropped message-set-corrupt message-stored-twice \
                message-too-large message-too-large-dropped messages-skipped midstream-start most-dead-lettered most-redelivered \
                nested-too-deep nesting-too-deep network-loss network-stall non-persistent-dropped not-a-capture not-kafka07 not-pulsar \
                num-messages-mismatch offset-out-of-range offset-skipped one-sided-capture overlap-conflict packet-duplicate \
                packet-length-odd packet-malformed packets-dropped packets-skipped partition-skew partition-stuck path-delay \
                pattern-without-topics payload-decoder-failed permits-negative processed-twice produce-lost produce-unconfirmed \
                producer-behind producer-busy producer-churn producer-fenced producer-id-reused producer-replaced producer-waiting \
                proxy-leg-failed proxy-legs published-before-subscription quorum-lost quota-exceeded read-from-storage \
                reader-behind-last-id receiver-queue-one reconnect-loop redeliver-all redelivery-storm redirect-not-followed \
                redirect-unseen regular-cut replication-stalled request-failed request-id-reused request-retried request-storm \
                request-unanswered required-field-missing resend-deduplicated resend-loop reset-between response-mismatch \
                response-unrequested retry-without-close rule-failed schema-incompatible schema-unknown send-unanswered \
                send-without-producer sequence-jump sequence-regression session-cap size-mismatch slow-bookie slow-broker slow-exchange \
                slow-publish snaplen-truncated snappy-framed stream-gap time-backwards time-invalid tls-decrypt-failed \
                tls-handshake-failed tls-key-log-empty tls-key-log-malformed tls-name-mismatch tls-no-secrets tls-on-plain-port \
                tls-secrets-cap token-expired token-expires-soon too-many-requests topic-migrated topic-terminated topic-unloaded \
                trailing-bytes txn-failed txn-open txn-unavailable uncompressed-size-missing unknown-command unknown-enum \
                unknown-link-type unload-burst unload-loop value-undecodable zero-window zlib-unfinished
    end
end

# True before any command.
function __pulsarscope_first
    test (count (commandline -opc)) -eq 1
end

# True for one of these commands; decode is understood where none is given.
function __pulsarscope_of
    set -l line (commandline -opc)
    set -e line[1]
    test (count $line) -gt 0; or return 1
    contains -- $line[1] decode messages stats diagnose report compare browse follow index extract sql mcp wireshark registry live pipeline findings fields help config selftest; or set line decode
    contains -- $line[1] $argv
end

# Print what is behind commas, or the words of an expression, with what is before the last word.
function __pulsarscope_several
    set -l before (string match -r -- $argv[2] (commandline -ct | string trim -l -c '\'"'))
    printf "%s\n" "$before"(__pulsarscope_list $argv[1])
end

# Print words behind the equals sign that is there.
function __pulsarscope_behind
    set -l before (string match -r -- '^[^=]*=' (commandline -ct)); or return
    printf "%s\n" $before(__pulsarscope_list $argv[1])
end

function __pulsarscope_file_behind
    set -l before (string match -r -- '^[^=]*=' (commandline -ct)); or return
    printf "%s\n" $before(__fish_complete_path (string replace -- $before '' (commandline -ct)) | string replace -r '\t.*' '')
end

complete -c pulsarscope -n __pulsarscope_first -l version -d 'Show the version.'
complete -c pulsarscope -n __pulsarscope_first -s h -l help -d 'Show this message and exit.'
complete -c pulsarscope -n __pulsarscope_first -a decode -d 'Show captures frame by frame.'
complete -c pulsarscope -n __pulsarscope_first -a messages -d 'Show the messages that applications sent and received.'
complete -c pulsarscope -n __pulsarscope_first -a stats -d 'Count connections, topics, commands and latencies.'
complete -c pulsarscope -n __pulsarscope_first -a diagnose -d 'Find problems, with evidence and advice.'
complete -c pulsarscope -n __pulsarscope_first -a report -d 'Write a page (HTML) to read and to pass on.'
complete -c pulsarscope -n __pulsarscope_first -a compare -d 'Compare two captures, before and after.'
complete -c pulsarscope -n __pulsarscope_first -a browse -d 'Browse captures in the terminal.'
complete -c pulsarscope -n __pulsarscope_first -a follow -d 'Follow a connection, producer, consumer, topic, message or txn.'
complete -c pulsarscope -n __pulsarscope_first -a index -d 'Index captures, to make browse, decode -Y and follow fast.'
complete -c pulsarscope -n __pulsarscope_first -a extract -d 'Copy the packets of matching records to a pcapng file.'
complete -c pulsarscope -n __pulsarscope_first -a sql -d 'Query the records of captures in SQL.'
complete -c pulsarscope -n __pulsarscope_first -a mcp -d 'Serve captures to an AI assistant over MCP.'
complete -c pulsarscope -n __pulsarscope_first -a wireshark -d 'Set up Wireshark: a Pulsar dissector and live capture.'
complete -c pulsarscope -n __pulsarscope_first -a registry -d 'Show the registry of Kafka 0.7 from a dump of ZooKeeper.'
complete -c pulsarscope -n __pulsarscope_first -a live -d 'Decode traffic as it happens.'
complete -c pulsarscope -n __pulsarscope_first -a pipeline -d 'Decode large sets of captures into tables with Spark.'
complete -c pulsarscope -n __pulsarscope_first -a findings -d 'List the findings, or explain one.'
complete -c pulsarscope -n __pulsarscope_first -a fields -d 'List the fields that a filter (-Y) can name.'
complete -c pulsarscope -n __pulsarscope_first -a help -d 'Show a page of the documentation.'
complete -c pulsarscope -n __pulsarscope_first -a config -d 'Show the configuration and where each value comes from.'
complete -c pulsarscope -n __pulsarscope_first -a selftest -d 'Check this installation against the bundled captures.'
complete -c pulsarscope -n '__pulsarscope_of decode live' -s V -d 'Show every field of each frame, as a tree.'
complete -c pulsarscope -n '__pulsarscope_of decode live' -s x -d 'Show the bytes of each frame, annotated.'
complete -c pulsarscope -n '__pulsarscope_of decode' -l records -d 'Record kinds: frame (by default), message, exchange, connection, finding, or all of these; journey.' -x -a '(__pulsarscope_several kinds "^.*,")'
complete -c pulsarscope -n '__pulsarscope_of decode' -s f -l format -d 'Write records for programs instead of text; otlp and perfetto write journeys as traces.' -x -a 'json ndjson csv parquet otlp perfetto'
complete -c pulsarscope -n '__pulsarscope_of decode messages' -l tail -d 'Only the last N records.' -x
complete -c pulsarscope -n '__pulsarscope_of decode messages follow' -l follow-file -d 'Keep reading as the capture grows, until Ctrl-C; a new file of the same name is read next.'
complete -c pulsarscope -n '__pulsarscope_of decode messages' -l raw -d 'Read the bytes of one connection without packets: a file with those of the client, then one with those of the server.'
complete -c pulsarscope -n '__pulsarscope_of decode messages' -l hexdump -d 'Read hex dumps of one connection, as from Wireshark, xxd, hexdump -C or Netty\'s logs.'
complete -c pulsarscope -n '__pulsarscope_of decode messages stats diagnose follow' -l redact -d 'Show what a copy made by extract --redact would: blank credentials and payloads, masked names.'
complete -c pulsarscope -n '__pulsarscope_of decode messages stats diagnose follow extract' -l redact-key -d 'Like --redact, with the same masks in all copies with this key file.' -r -F
complete -c pulsarscope -n '__pulsarscope_of decode messages stats diagnose report compare index extract sql live' -s j -l jobs -d 'Decode in N processes; 0: one per core.' -x
complete -c pulsarscope -n '__pulsarscope_of decode messages stats diagnose report compare follow extract sql registry live findings fields' -s o -l output -d 'Write to OUT instead of standard output.' -r -F
complete -c pulsarscope -n '__pulsarscope_of decode messages live' -l columns -d 'Only these columns, in this order.' -x -a '(__pulsarscope_several columns "^.*,")'
complete -c pulsarscope -n '__pulsarscope_of decode messages follow live' -l time -d 'How text shows times.' -x -a 'relative delta utc local epoch'
complete -c pulsarscope -n '__pulsarscope_of decode live pipeline' -l payload -d 'Include the payload of messages; with -x hex, all bytes.' -x -a 'base64 hex text'
complete -c pulsarscope -n '__pulsarscope_of decode messages diagnose browse follow sql live pipeline' -l show-secrets -d 'Do not redact tokens and passwords.'
complete -c pulsarscope -n '__pulsarscope_of decode messages stats diagnose compare browse follow sql registry live findings help config' -l no-color -d 'Disable colours; NO_COLOR and FORCE_COLOR work as well.'
complete -c pulsarscope -n '__pulsarscope_of decode stats compare browse follow extract live' -s Y -l filter -d 'Only records that match, as in \'latency > 50ms\'; see help filter.' -x -a '(__pulsarscope_several fields "^.*[^A-Za-z0-9_.]")'
complete -c pulsarscope -n '__pulsarscope_of decode messages follow extract live' -l limit -d 'Stop after N records.' -x
complete -c pulsarscope -n '__pulsarscope_of decode messages stats report follow index sql registry live' -s q -l quiet -d 'Omit headings, progress and warnings.'
complete -c pulsarscope -n '__pulsarscope_of decode messages stats diagnose extract live pipeline' -l fail-on -d 'Exit with code 1 if there is a finding of this severity or worse.' -x -a 'error warning note never'
complete -c pulsarscope -n '__pulsarscope_of decode messages stats diagnose report compare browse follow index extract sql live pipeline' -l port -d 'Treat server port N as Pulsar without recognition; repeatable.' -x
complete -c pulsarscope -n '__pulsarscope_of decode messages stats diagnose report compare browse follow index extract sql live pipeline' -s d -l decode-as -d 'Decode a port as a protocol, as in 9093=kafka07; repeatable.' -x -a '(__pulsarscope_behind dissectors)'
complete -c pulsarscope -n '__pulsarscope_of decode messages stats diagnose report compare browse follow index extract sql live pipeline' -l tls-keylog -d 'Decrypt TLS with the secrets of this key log (SSLKEYLOGFILE); repeatable.' -r -F
complete -c pulsarscope -n '__pulsarscope_of decode messages stats diagnose report compare browse follow index extract sql live pipeline' -l private-key -d 'Decrypt messages encrypted for this RSA key (PEM, DER); repeatable.' -r -F
complete -c pulsarscope -n '__pulsarscope_of decode messages stats diagnose report compare browse follow index extract sql live pipeline' -l ledger-password -d 'Verify HMAC digests of BookKeeper with the password in this file; the empty one is always tried; repeatable.' -r -F
complete -c pulsarscope -n '__pulsarscope_of decode messages stats diagnose report compare browse follow index extract sql live pipeline' -l schema -d 'Decode the payloads of a topic by this schema (see pulsarscope help schemas); repeatable.' -x -a '(__pulsarscope_file_behind)'
complete -c pulsarscope -n '__pulsarscope_of decode messages stats diagnose report compare browse follow index extract sql live pipeline' -l names -d 'Name topics by their ledgers, as pulsar-admin topics stats-internal prints them; repeatable.' -r -F
complete -c pulsarscope -n '__pulsarscope_of decode messages stats diagnose report compare browse follow index extract sql live pipeline' -l threshold -d 'Set a limit that decides a finding (see findings CODE); repeatable.' -x -a '(__pulsarscope_list thresholds | string replace -r \\$ =)'
complete -c pulsarscope -n '__pulsarscope_of decode messages stats diagnose report compare browse follow index extract sql live pipeline' -l source-by -d 'Separate vantage points: by folder, by interface, or by what a REGEX matches in the path of a capture.' -x -a 'none dir interface'
complete -c pulsarscope -n '__pulsarscope_of decode messages stats diagnose report compare browse follow index extract sql mcp wireshark registry live pipeline findings fields help config selftest' -l profile -d 'Take defaults from this profile of the configuration (see pulsarscope help configuration).' -x
complete -c pulsarscope -n '__pulsarscope_of decode messages stats diagnose report compare browse follow index extract sql mcp wireshark registry live pipeline findings fields help config selftest' -s h -l help -d 'Show this message and exit.'
complete -c pulsarscope -n '__pulsarscope_of messages' -l payload -d 'Include the payloads.' -x -a 'base64 hex text'
complete -c pulsarscope -n '__pulsarscope_of messages' -s Y -l filter -d 'Only records that match, as in \'payload_size > 1KB\'; see help filter.' -x -a '(__pulsarscope_several fields "^.*[^A-Za-z0-9_.]")'
complete -c pulsarscope -n '__pulsarscope_of messages' -l export -d 'Write each payload to a file of this new folder, and a list of the messages.' -x -a '(__fish_complete_directories (commandline -ct))'
complete -c pulsarscope -n '__pulsarscope_of messages follow' -s f -l format -d 'Write records for programs instead of text.' -x -a 'json ndjson csv parquet'
complete -c pulsarscope -n '__pulsarscope_of stats' -l by -d 'Sections: total, connections, topics, producers, subscriptions, commands, exchanges, slowest (these by default); consumers, backlog, keys, transactions, lookups, schemas, journeys; legs, bookies, ledgers.' -x -a '(__pulsarscope_several sections "^.*,")'
complete -c pulsarscope -n '__pulsarscope_of stats' -l interval -d 'Add a time series with intervals of this length, for example 1s; also for the backlog.' -x
complete -c pulsarscope -n '__pulsarscope_of stats' -l plot -d 'Also draw the latency percentiles of each request into this file.' -r -F
complete -c pulsarscope -n '__pulsarscope_of stats diagnose' -l follow-file -d 'Keep reading as the capture grows, and report at Ctrl-C; a new file of the same name is read next.'
complete -c pulsarscope -n '__pulsarscope_of stats sql registry fields' -s f -l format -d 'Write records for programs instead of text.' -x -a 'json ndjson csv'
complete -c pulsarscope -n '__pulsarscope_of stats compare registry' -l limit -d 'Show at most N rows of each list; 10 by default.' -x
complete -c pulsarscope -n '__pulsarscope_of diagnose' -s f -l format -d 'Write the report for programs instead of text.' -x -a 'json ndjson sarif junit'
complete -c pulsarscope -n '__pulsarscope_of diagnose' -s Y -l filter -d 'Only records that match, as in \'severity == error\'; see help filter.' -x -a '(__pulsarscope_several fields "^.*[^A-Za-z0-9_.]")'
complete -c pulsarscope -n '__pulsarscope_of diagnose' -l limit -d 'Show at most N kinds of findings; 10 by default.' -x
complete -c pulsarscope -n '__pulsarscope_of diagnose' -l baseline -d 'Leave out the findings in this file, a diagnosis in --format json.' -r -F
complete -c pulsarscope -n '__pulsarscope_of diagnose compare' -s q -l quiet -d 'Show only the verdict.'
complete -c pulsarscope -n '__pulsarscope_of report' -s Y -l filter -d 'Only records that match, as in \'topic matches "orders"\'; see help filter.' -x -a '(__pulsarscope_several fields "^.*[^A-Za-z0-9_.]")'
complete -c pulsarscope -n '__pulsarscope_of report' -l limit -d 'Rows of each table, the busiest; 300 by default.' -x
complete -c pulsarscope -n '__pulsarscope_of report' -l anonymize -d 'Show pseudonyms instead of addresses, topics and names of clients, different in each report.'
complete -c pulsarscope -n '__pulsarscope_of report' -l anonymize-key -d 'Like --anonymize, with the same pseudonyms in all reports with this key file.' -r -F
complete -c pulsarscope -n '__pulsarscope_of compare findings' -s f -l format -d 'Write the report for programs instead of text.' -x -a 'json ndjson'
complete -c pulsarscope -n '__pulsarscope_of compare' -l fail-on -d 'Exit with code 1 if something got slower, or there are more errors or warnings.' -x -a 'regression never'
complete -c pulsarscope -n '__pulsarscope_of browse' -l index -d 'Keep the index beside the capture, as FILE.psidx, not in the cache.'
complete -c pulsarscope -n '__pulsarscope_of follow' -l connection -d 'Its first packet, as in 17 for #17, or FILE:PACKET for #FILE:PACKET.' -x
complete -c pulsarscope -n '__pulsarscope_of follow' -l producer -d 'Producer name; includes its deliveries.' -x
complete -c pulsarscope -n '__pulsarscope_of follow' -l consumer -d 'Consumer id, name or subscription.' -x
complete -c pulsarscope -n '__pulsarscope_of follow' -l topic -d 'Topic; its last part is enough where that is unique.' -x
complete -c pulsarscope -n '__pulsarscope_of follow' -l message -d 'LEDGER:ENTRY or LEDGER:ENTRY:BATCH; of a log of Kafka 0.7, TOPIC-PARTITION@OFFSET.' -x
complete -c pulsarscope -n '__pulsarscope_of follow' -l txn -d 'The two numbers of a transaction id.' -x
complete -c pulsarscope -n '__pulsarscope_of index' -l beside -d 'Keep it beside the capture, as FILE.psidx, not in the cache.'
complete -c pulsarscope -n '__pulsarscope_of index' -l into -d 'Keep it in this folder, the indexLocation of Spark\'s data source.' -x -a '(__fish_complete_directories (commandline -ct))'
complete -c pulsarscope -n '__pulsarscope_of extract' -l records -d 'Record kinds to search; by default frame with -Y, else connection.' -x -a '(__pulsarscope_several kinds "^.*,")'
complete -c pulsarscope -n '__pulsarscope_of extract' -l context -d 'Include the packets that open and close the connections.'
complete -c pulsarscope -n '__pulsarscope_of extract' -l findings -d 'Also run the rules, and put their findings into comments; implied by --records finding and --fail-on.'
complete -c pulsarscope -n '__pulsarscope_of extract' -l redact -d 'Blank credentials, payloads, properties and keys; mask addresses and names, differently in each copy.'
complete -c pulsarscope -n '__pulsarscope_of extract' -s q -l quiet -d 'Omit progress, warnings and the summary.'
complete -c pulsarscope -n '__pulsarscope_of sql' -l payload -d 'Include the payloads of messages.' -x -a 'base64 hex text'
complete -c pulsarscope -n '__pulsarscope_of sql' -l limit -d 'Show at most N rows as text; 1,000 by default.' -x
complete -c pulsarscope -n '__pulsarscope_of wireshark' -l install -d 'Install the dissector and the capture program: for this user, or for all where Wireshark has one folder for all.'
complete -c pulsarscope -n '__pulsarscope_of wireshark' -l remove -d 'Remove both.'
complete -c pulsarscope -n '__pulsarscope_of wireshark' -l lua -d 'Write the dissector to standard output, for tshark -X lua_script:FILE.'
complete -c pulsarscope -n '__pulsarscope_of registry' -l by -d 'Sections: brokers, topics, consumers, partitions, other, notes; all by default.' -x -a '(__pulsarscope_several registry_sections "^.*,")'
complete -c pulsarscope -n '__pulsarscope_of live' -s i -l interface -d 'Source: an interface, any (the default), - for standard input, or a pipe.' -x -a '(echo any; echo -; __fish_print_interfaces)'
complete -c pulsarscope -n '__pulsarscope_of live' -l list -d 'List the interfaces and exit.'
complete -c pulsarscope -n '__pulsarscope_of live' -l wait-for-interface -d 'Wait for an interface that does not exist yet, or goes down.'
complete -c pulsarscope -n '__pulsarscope_of live' -s f -l capture-filter -d 'Capture filter in the syntax of tcpdump.' -x
complete -c pulsarscope -n '__pulsarscope_of live' -l any-port -d 'Capture all TCP, not only the ports of the known protocols.'
complete -c pulsarscope -n '__pulsarscope_of live' -l buffer -d 'Size of the kernel\'s buffer; 64MiB by default.' -x
complete -c pulsarscope -n '__pulsarscope_of live' -s w -l write -d 'Save the packets as pcapng.' -r -F
complete -c pulsarscope -n '__pulsarscope_of live' -l capture-only -d 'Only save the packets to the file of -w; decode nothing.'
complete -c pulsarscope -n '__pulsarscope_of live' -l rotate -d 'Start a new file after this size or time; repeatable.' -x
complete -c pulsarscope -n '__pulsarscope_of live' -l keep -d 'Keep the latest N files.' -x
complete -c pulsarscope -n '__pulsarscope_of live' -l for -d 'Stop after this time, for example 30s.' -x
complete -c pulsarscope -n '__pulsarscope_of live' -l packets -d 'Stop after N packets.' -x
complete -c pulsarscope -n '__pulsarscope_of live' -l until -d 'Stop at the first finding with this code.' -x -a '(__pulsarscope_list findings)'
complete -c pulsarscope -n '__pulsarscope_of live' -l trigger -d 'Save only the packets around each finding with this code, each error, or each match.' -x -a '(__pulsarscope_list triggers)'
complete -c pulsarscope -n '__pulsarscope_of live' -l around -d 'Time to save before and after it; 10s by default.' -x
complete -c pulsarscope -n '__pulsarscope_of live' -l top -d 'Show a screen of topics, producers, subscriptions, rates, latencies and findings; with --records message, also of keys.'
complete -c pulsarscope -n '__pulsarscope_of live' -l browse -d 'Show a screen of frames as they happen, to pause, scroll back, filter and search.'
complete -c pulsarscope -n '__pulsarscope_of live' -l metrics -d 'Serve counts and latencies to Prometheus, for example at 127.0.0.1:9464.' -x
complete -c pulsarscope -n '__pulsarscope_of live' -l format -d 'Write records for programs instead of text.' -x -a 'json ndjson csv parquet'
complete -c pulsarscope -n '__pulsarscope_of live' -l records -d 'Record kinds; text shows frames and findings by default.' -x -a '(__pulsarscope_several kinds "^.*,")'
complete -c pulsarscope -n '__pulsarscope_of pipeline' -s o -l output -d 'New folder, or URI, for a table of each kind.' -x -a '(__fish_complete_directories (commandline -ct))'
complete -c pulsarscope -n '__pulsarscope_of pipeline' -l records -d 'Record kinds: frame, message, exchange, connection, finding, or all of these; journey.' -x -a '(__pulsarscope_several kinds "^.*,")'
complete -c pulsarscope -n '__pulsarscope_of pipeline' -s f -l format -d 'Format of the tables; delta and iceberg need packages of Spark.' -x -a 'parquet json delta iceberg'
complete -c pulsarscope -n '__pulsarscope_of pipeline' -l partition-by -d 'Folders of tables by day (UTC), by vantage point, or by both in this order.' -x
complete -c pulsarscope -n '__pulsarscope_of pipeline' -l compact -d 'Merge the small files of such tables into large ones, sorted by time, and exit.' -x -a '(__fish_complete_directories (commandline -ct))'
complete -c pulsarscope -n '__pulsarscope_of pipeline' -s q -l quiet -d 'Omit progress and the summary.'
complete -c pulsarscope -n '__pulsarscope_of pipeline' -l watch -d 'Decode the rotated captures that land in a folder, until Ctrl-C.' -x -a '(__fish_complete_directories (commandline -ct))'
complete -c pulsarscope -n '__pulsarscope_of pipeline' -l checkpoint -d 'With --watch, --incremental: folder of the state to resume from.' -x -a '(__fish_complete_directories (commandline -ct))'
complete -c pulsarscope -n '__pulsarscope_of pipeline' -l incremental -d 'Decode the captures that the tables do not have yet; needs --checkpoint.'
complete -c pulsarscope -n '__pulsarscope_of pipeline' -l every -d 'With --watch: time between checks for new captures.' -x
complete -c pulsarscope -n '__pulsarscope_of pipeline' -l settle -d 'With --watch, --incremental: time without changes after which a file is complete.' -x
complete -c pulsarscope -n '__pulsarscope_of pipeline' -l finish -d 'With --watch, --incremental: decode the captures that are there, close all connections, and exit.'
complete -c pulsarscope -n '__pulsarscope_of pipeline' -l master -d 'Spark master, or a Connect server (sc://); this machine by default.' -x
complete -c pulsarscope -n '__pulsarscope_of pipeline' -l partitions -d 'Number of tasks that decode.' -x
complete -c pulsarscope -n '__pulsarscope_of pipeline' -l split -d 'Read larger plain files in portions of this size; 1GiB by default.' -x -a 'off'
complete -c pulsarscope -n '__pulsarscope_of pipeline' -l conf -d 'Spark setting; repeatable.' -x
complete -c pulsarscope -n '__pulsarscope_of pipeline' -l explain -d 'Print the plan and its estimated cost, and exit.'
complete -c pulsarscope -n '__pulsarscope_of pipeline' -l check -d 'Check that all requirements are met, and exit.'
complete -c pulsarscope -n '__pulsarscope_of findings' -l layer -d 'Only findings of this layer.' -x -a 'capture tcp tls frame payload session tuning'
complete -c pulsarscope -n '__pulsarscope_of findings' -l severity -d 'Only findings of this severity.' -x -a 'error warning note'
complete -c pulsarscope -n '__pulsarscope_of config' -l show -d 'Show the options that are set, with the place that sets each.'
complete -c pulsarscope -n '__pulsarscope_of mcp' -f -a '(__pulsarscope_list )'
complete -c pulsarscope -n '__pulsarscope_of wireshark' -f
complete -c pulsarscope -n '__pulsarscope_of live' -f
complete -c pulsarscope -n '__pulsarscope_of findings' -f -a '(__pulsarscope_list findings)'
complete -c pulsarscope -n '__pulsarscope_of fields' -f -a '(__pulsarscope_list fields)'
complete -c pulsarscope -n '__pulsarscope_of help' -f -a '(__pulsarscope_list topics)'
complete -c pulsarscope -n '__pulsarscope_of config' -f -a '(__pulsarscope_list commands)'
complete -c pulsarscope -n '__pulsarscope_of selftest' -f
