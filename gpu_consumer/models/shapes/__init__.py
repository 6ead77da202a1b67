"""A small Stable Diffusion 1.5 that really draws: its pictures in code, its training, its judge, its kept weights."""
