"""The `stepwise` engine: requests join and leave one padded batch at any denoising step."""
