// Ctrl-C: the first one ends the work in hand and keeps what it made, the second ends the process.
#pragma once

#include <functional>

namespace kvern::cli {

// Thrown by work that found interrupted() true.
struct Interrupted {};

// Must be called before any thread is made. From then on SIGINT and SIGTERM are taken by one
// thread.
void catch_interrupts();
bool interrupted();
// Called once from the signal's own thread at the first interrupt; {} removes it.
void on_interrupt(std::function<void()> action);

}  // namespace kvern::cli
