"""Transactions on other machines: tickets go there, bundles come back."""
