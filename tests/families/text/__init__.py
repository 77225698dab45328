OTHERS = ("text:KuhnPoker-v0",)
