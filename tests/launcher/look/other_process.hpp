// OtherProcess is a child that a test of the reader looks at; in_other_process() lets another child look.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {

// Runs a program, or a function, until it is destroyed, then kills and reaps it. What a program prints is
// read by lines; a function should end by waiting.
class OtherProcess {
  public:
    explicit OtherProcess(const std::vector<std::string>& command);
    explicit OtherProcess(const std::function<void()>& body);
    OtherProcess(const OtherProcess&) = delete;
    OtherProcess& operator=(const OtherProcess&) = delete;
    ~OtherProcess();

    pid_t pid() const { return ends_.pid; }

    // Returns the next line that it prints, without its newline; what is there at its end.
    std::string line();

    // Waits until /proc/PID/stat shows this state.
    void await_state(char state) const;

    struct Ends {
        pid_t pid = -1;
        OwnedDescriptor input;
        OwnedDescriptor output;
    };

  private:
    Ends ends_;
};

// Returns what the function returns, of one line, when a forked child calls it. "ended" if the child ends
// otherwise.
std::string in_other_process(const std::function<std::string()>& body);

}  // namespace ddprun
