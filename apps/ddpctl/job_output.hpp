// JobOutput prints the output file of a detached job to stdout, from a place of choice, and follows it to the
// job's end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "launcher/jobs/job_folder.hpp"
#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace app {

// JobOutput blocks where stdout does; for one thread.
class JobOutput {
  public:
    // Throws Error if the file cannot be opened.
    explicit JobOutput(const Job& job);

    // Lets the next print begin with the last `lines` lines of what is there now.
    void seek_tail(std::uint64_t lines);

    // Prints what is there and was not printed. Throws Error if stdout does not take it.
    void print();

    enum class Stop { job_ended, interrupted };
    // Prints what comes until the launcher has ended; if `interruptible`, until a SIGINT, which then ends
    // nothing else. Every wait is for the file, the launcher and the signal together.
    Stop follow(bool interruptible);

  private:
    bool exists() const;
    // Goes on in the file that the launcher has made anew, where that is another file by now: it has the end
    // of what the first one had.
    bool reopen();

    std::string path_;
    OwnedDescriptor file_;
    Job job_;
    std::uint64_t offset_ = 0;  // of the first byte not printed
};

// Returns a descriptor that can be read after a SIGINT, which ends nothing else any more. Throws Error.
OwnedDescriptor take_interrupts();

// Writes all of it to stdout. Throws Error.
void write_out(std::string_view bytes);

// Writes a line of ddpctl's own to stderr.
void complain(const std::string& what);

}  // namespace app
}  // namespace ddprun
