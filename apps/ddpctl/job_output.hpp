// JobOutput: the output file of a job, printed to stdout from where one likes, and followed to the job's end.
//
// Blocks where stdout does. One thread.
#pragma once

#include <cstdint>
#include <string>

#include "launcher/jobs/job_folder.hpp"

namespace ddprun::inline app {

class JobOutput {
  public:
    // Throws Error if the file cannot be opened.
    explicit JobOutput(const Job& job);

    // What is printed next begins with the last `lines` lines of what is there now.
    void seek_tail(std::uint64_t lines);

    // Prints what is there and was not printed. Throws Error if stdout does not take it.
    void print();

    enum class Stop { job_ended, interrupted };
    // Prints what comes until the launcher has ended; if `interruptible`, until a SIGINT, which then ends
    // nothing else. Every wait is for the file, the launcher and the signal together.
    Stop follow(bool interruptible);

  private:
    std::string path_;
    OwnedDescriptor file_;
    Job job_;
    std::uint64_t offset_ = 0;  // of the first byte not printed
};

}  // namespace ddprun::inline app
