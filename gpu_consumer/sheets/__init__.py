"""Contact sheets: pictures on one page, with what they were asked for, so that a person can judge them."""
