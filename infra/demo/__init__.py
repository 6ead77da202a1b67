"""The main job, shown: prompts in, pictures, rejections and dead letters out, on a broker of its own."""
