"""Whose certificate it is. Imported when one is seen."""

from __future__ import annotations

import warnings

from cryptography import x509

_REFUSALS = (
    ValueError,
    TypeError,  # for a name of a kind that it cannot have
    x509.InvalidVersion,
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
"""What the library says to a certificate that it does not read."""


def holder(der: bytes) -> tuple[str, list[str]] | None:
    """Subject (RFC 4514) and alternative names of a certificate; None when it cannot be read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of certificates that bend the rules
        try:
            certificate = x509.load_der_x509_certificate(der)
            subject = certificate.subject.rfc4514_string()
        except _REFUSALS:
            return None
        try:
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except _REFUSALS:
            return subject, []
        return subject, [
            *names.get_values_for_type(x509.DNSName),
            *map(str, names.get_values_for_type(x509.IPAddress)),
            *names.get_values_for_type(x509.UniformResourceIdentifier),
        ]
