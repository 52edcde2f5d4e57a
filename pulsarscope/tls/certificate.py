"""Names and dates in X.509 certificates; imported on use."""

from __future__ import annotations

import warnings

from cryptography import x509

_REFUSALS = (
    ValueError,
    TypeError,  # raised for a name of an invalid type
    x509.InvalidVersion,
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
"""Exceptions of the library for a certificate that it cannot parse."""


def certificate_names(der: bytes) -> tuple[str, list[str], str] | None:
    """Return subject (RFC 4514), alternative names and end of validity of a DER certificate, None when it cannot be parsed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # raised for certificates that violate the standard
        try:
            certificate = x509.load_der_x509_certificate(der)
            subject = certificate.subject.rfc4514_string()
            ends = certificate.not_valid_after_utc.isoformat().replace("+00:00", "Z")
        except _REFUSALS:
            return None
        try:
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except _REFUSALS:
            return subject, [], ends
        alternatives = [
            *names.get_values_for_type(x509.DNSName),
            *map(str, names.get_values_for_type(x509.IPAddress)),
            *names.get_values_for_type(x509.UniformResourceIdentifier),
        ]
        return subject, alternatives, ends
