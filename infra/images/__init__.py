"""Container images: what each is built from, and what they run to tell that they are well."""
