"""Names and types of all fields that rows of BookKeeper can have."""

from __future__ import annotations

from pulsarscope.dissect.contract.capabilities import FieldType, Vocabulary
from pulsarscope.protocols.bookkeeper.commands import FLAGS, NAMES, RESPONSE, STATUS_NAMES, response
from pulsarscope.protocols.bookkeeper.ledger_entry import KINDS
from pulsarscope.protocols.bookkeeper.protobuf import FLAGS as V3_FLAGS

_FLAG_NAMES = tuple(dict.fromkeys([*FLAGS.values(), *(name for names in V3_FLAGS.values() for name in names.values())]))

_COMMON = (
    FieldType("version", "int64", "Version of the protocol, 0 to 3."),
    FieldType("txn_id", "int64", "Of version 3: pairs request and answer."),
    FieldType("priority", "int64", "Of version 3."),
    FieldType("flags", "string", "Set flags.", repeated=True, values=_FLAG_NAMES),
    FieldType("ledger", "int64", "Ledger."),
    FieldType("unknown", "object", "Fields of version 3 without a name, by number."),
)
_ENTRY_ID = FieldType("entry", "int64", "Entry; -1 asks for the last one.")
_STATUS = FieldType("status", "string", "What the bookie says.", values=STATUS_NAMES)
_KEY = FieldType("master_key", "string", "Credential of the ledger, redacted.")
_HEAD = (
    FieldType("last_add_confirmed", "int64", "Last entry that the writer knew to be on its quorum."),
    FieldType("length", "int64", "Bytes of all data of the ledger up to and with this entry."),
    FieldType("digest", "string", "Kind of its digest.", values=KINDS),
    FieldType("data_size", "int64", "Bytes of its data."),
)
_ENTRY = (
    _ENTRY_ID,
    *_HEAD,
    FieldType("stored_ledger", "int64", "Ledger inside the entry, when it is another."),
    FieldType("stored_entry", "int64", "Entry inside the entry, when it is another: which one is the last."),
    FieldType("data", "object", "What the entry is to those who store it.", fields=(FieldType("kind", "string", "message or cursor."),)),
)
_ENTRIES = FieldType("entries", "object", "Ledger entries, in order.", repeated=True, fields=(_COMMON[4], _ENTRY_ID, *_HEAD))
_AUTH = (FieldType("plugin", "string", "Name of the plug-in."), FieldType("payload", "string", "Credentials, redacted."))
_LAC = FieldType("lac_body", "bytes", "Explicit last add confirmed, with its digest.")
_REQUEST_ID = FieldType("request_id", "int64", "Pairs request and answer.")

_REQUESTS: dict[str, tuple[FieldType, ...]] = {
    "ADD": (_KEY, *_ENTRY, FieldType("write_flags", "int64", "Of version 3.")),
    "READ": (_KEY, _ENTRY_ID, FieldType("previous_lac", "int64", "LAC to wait beyond."), FieldType("timeout", "int64", "Milliseconds.")),
    "AUTH": _AUTH,
    "BATCH_READ": (
        _KEY,
        _ENTRY_ID,
        _REQUEST_ID,
        FieldType("max_count", "int64", "Most entries that the answer may bring."),
        FieldType("max_size", "int64", "Most bytes that the answer may bring."),
    ),
    "WRITE_LAC": (_KEY, FieldType("lac", "int64", "Last add confirmed."), _LAC),
    "GET_BOOKIE_INFO": (FieldType("requested", "int64", "Bits: what is asked for."),),
}
_ANSWERS: dict[str, tuple[FieldType, ...]] = {
    "ADD": (_ENTRY_ID,),
    "READ": (*_ENTRY, FieldType("max_lac", "int64", "LAC that the bookie knows."), FieldType("lac_time", "int64", "Milliseconds.")),
    "AUTH": _AUTH,
    "BATCH_READ": (*_ENTRY, _REQUEST_ID, _ENTRIES),
    "READ_LAC": (*_ENTRY, _LAC),
    "GET_BOOKIE_INFO": (FieldType("total_bytes", "int64", "Disk."), FieldType("free_bytes", "int64", "Disk that is free.")),
    "LIST_ENTRIES": (FieldType("availability", "bytes", "Entries that the bookie has, packed."),),
}

VOCABULARY = Vocabulary(
    commands={
        **{name: (*_COMMON, *_REQUESTS.get(name, ())) for name in NAMES},
        **{response(name): (*_COMMON, _STATUS, *_ANSWERS.get(name, ())) for name in NAMES},
    },
    values={
        "frame.command": (*NAMES, *(name + RESPONSE for name in NAMES)),
        "exchange.request": NAMES,
        "exchange.response": tuple(map(response, NAMES)),
        "exchange.error": STATUS_NAMES,
    },
)
