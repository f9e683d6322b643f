// OutputRoute: the way of one stream's bytes from the reading end on.
#pragma once

#include <climits>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/output/console_writer.hpp"
#include "launcher/output/kept_output.hpp"
#include "launcher/output/log_file.hpp"
#include "launcher/output/output_lines.hpp"
#include "launcher/output/raised_ranks.hpp"

namespace ddprun {
inline namespace launch {

// OutputConsole is one console of the launcher: stdout, stderr, or both if they are the same thing.
struct OutputConsole : AwaitedConsole {
    // kLauncherStream: the launcher's own stream in `text`; the workers' are numbered from 0.
    static constexpr int kLauncherStream = INT_MAX;
    using AwaitedConsole::AwaitedConsole;
    // Puts `block` into the writer's buffer, see ConsoleText::add; much of it is written at once.
    void show(int stream, std::string_view prefix, std::string_view block);
    ConsoleText text;
};

struct OutputRouteParts {
    int number = 0;                    // the stream's number, never used for another stream
    OutputConsole* console = nullptr;  // none: the stream does not go there
    LinePrefix prefix;                 // with everything but the time filled in, as in `header`
    std::unique_ptr<LogFile> file;
    std::shared_ptr<LogFile> filtered;  // shared by all local ranks
    std::vector<std::string> filters;
    LinePrefix header;  // before the lines in `filtered`
    bool keeps_last_lines = false;
    RaisedRanks* raised = nullptr;  // none: what the worker raises here is not told
    KeptOutput* kept = nullptr;     // none: the lines are not kept for clients
    int rank = 0;
    OutputStream stream = OutputStream::out;
    std::function<void(std::string_view)> on_line;  // see LineWatcher; empty: no line is told
};

// OutputRoute passes bytes on: to lines, then log file, filters, last lines, on_line and console. Owned by
// the pump and used by its thread only; it never waits for anything.
class OutputRoute {
  public:
    explicit OutputRoute(OutputRouteParts parts);

    void take(std::string_view bytes);

    // Tells that the stream has ended: what is left goes out as it is. Nothing is taken then.
    void end();
    void close_files();

    // Returns true if there is an unfinished line, or a new state of one, that was not shown yet.
    bool has_unseen() const { return unseen_; }
    void show_unfinished();

    // Returns the line that has not ended, in its last state, if its lines are kept for clients.
    std::string_view kept_unfinished() const {
        return parts_.kept != nullptr ? splitter_.unfinished() : std::string_view();
    }
    int rank() const { return parts_.rank; }
    OutputStream stream() const { return parts_.stream; }

    std::vector<std::string> last_lines() const { return last_lines_.lines(splitter_.unfinished()); }

    // Shows the last lines on `console`, in this stream's way.
    void replay(OutputConsole& console) const;

    OutputConsole* console() const { return parts_.console; }
    const LogFile* file() const { return parts_.file.get(); }
    const LogFile* filtered_file() const { return parts_.filtered.get(); }

  private:
    void pass_on(std::string_view block);
    void tell_lines(std::string_view block);
    void show_begun(std::string_view line);
    void filter(std::string_view block);
    bool matches(std::string_view line) const;

    OutputRouteParts parts_;
    LineSplitter splitter_;
    LastLines last_lines_;
    std::string filtered_;
    std::string shown_;          // what a console that is no terminal has been shown of the unfinished line
    bool is_line_told_ = false;  // what comes up to the next newline belongs to a line that was told
    bool unseen_ = false;
    bool waits_ = false;  // the unseen line waits for the next look
};

}  // namespace launch
}  // namespace ddprun
