"""Many runs planned together: which, in a file; and how this machine gets through them."""
