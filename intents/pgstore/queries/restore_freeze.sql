-- restore_freeze: keeps everybody from changing an intent until the transaction ends; reading goes on. The watermark is locked before.
lock table intents in exclusive mode
