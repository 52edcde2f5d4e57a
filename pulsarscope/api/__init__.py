"""The library interface: captures and live traffic as rows."""
