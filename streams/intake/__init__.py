"""Two ways of bringing requests to their partition's owner: Faust (the default) and plain aiokafka."""
