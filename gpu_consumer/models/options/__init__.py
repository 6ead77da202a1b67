"""How a config wants its model to stand in memory: an option a file, each applied once, when the model is loaded.

as from_pretrained made it -> loras -> attention -> decoding -> onto the device, or offload -> compiling
"""
