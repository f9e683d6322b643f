// A Command is what `ddpctl NAME` does, in a file of its own that ends with its maker. A new command is such
// a file and a row of the table in command_line.cpp.
#pragma once

#include <memory>
#include <vector>

#include "apps/cli/option_row.hpp"
#include "apps/ddpctl/known_jobs.hpp"

namespace ddprun {
inline namespace app {

class Command {
  public:
    virtual ~Command() = default;

    virtual const char* name() const = 0;
    virtual const char* help() const = 0;
    // Returns its words and options, which fill in the command; the command outlives them.
    virtual std::vector<OptionRow> rows() = 0;
    // Does the command's work, once the rows have their values. Returns the exit code. Throws UsageError and
    // system_error.
    virtual int run(const KnownJobs& jobs) = 0;
};

std::unique_ptr<Command> make_list_command();
std::unique_ptr<Command> make_status_command();
std::unique_ptr<Command> make_logs_command();
std::unique_ptr<Command> make_attach_command();
std::unique_ptr<Command> make_events_command();
std::unique_ptr<Command> make_stacks_command();
std::unique_ptr<Command> make_kill_command();

// Makes the word that names the job, for commands of one.
inline OptionRow id_row(std::string& id) {
    return {"ID", "", "The job's id, or the beginning of one that no other id has", into(id)};
}

}  // namespace app
}  // namespace ddprun
