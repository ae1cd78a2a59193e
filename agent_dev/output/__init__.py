"""Values as text or JSON on stdout: one module an area, as for the words."""
