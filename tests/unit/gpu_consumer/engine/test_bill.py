from gpu_consumer.engine.bill import Bill


def test_a_share_is_what_all_tries_cost() -> None:
    bill = Bill()
    bill.ran_in(4)
    for stage, seconds in (("text", 0.5), ("denoise", 1.0), ("denoise", 2.0), ("decode", 0.25), ("encode", 8.0)):
        bill.charge(stage, seconds)
    for company in (1, 4, 4):
        bill.stepped(company)
    bill.saw(7)
    bill.ran_in(2)
    bill.saw(5)
    share = bill.share()
    assert share.timings == {"text": 0.5, "denoise": 3.0, "decode": 0.25, "encode": 8.0}
    assert share.gpu_seconds == 3.75
    assert (share.bucket, share.batch_size, share.peak_vram_bytes) == (2, 3, 7)


def test_who_never_made_a_step_was_alone_and_cost_nothing() -> None:
    share = Bill().share()
    assert (share.gpu_seconds, share.batch_size, share.bucket) == (0.0, 1, 1)
