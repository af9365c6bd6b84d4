"""What tests of extensions are made of: kits that an implementation must pass, and simple ones to compare it with."""
