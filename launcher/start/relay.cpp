#include "launcher/start/relay.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

#include "launcher/output/output_lines.hpp"
#include "launcher/process/descriptors.hpp"
#include "launcher/start/code_files.hpp"
#include "launcher/start/host_connections.hpp"
#include "launcher/start/piped_process.hpp"
#include "launcher/start/remote_shell.hpp"
#include "launcher/start/start_tree.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/job/exit_status.hpp"
#include "rendezvous/system/quiet_thread.hpp"
#include "rendezvous/system/small_file.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {

OwnedDescriptor take_relay_line() {
    // One that runs from a removed file has another name than people look for.
    ::prctl(PR_SET_NAME, "ddprun");
    OwnedDescriptor line(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    lead_to_nowhere({STDIN_FILENO});
    return line;
}

namespace {

constexpr std::string_view kPortWord = "port ";
constexpr std::string_view kRunsWord = "runs";
constexpr std::size_t kMaxAgentWord = 64;

// LocalAgent is the agent beside a relay, as that sees it. Used on the thread of the executor, from where its
// events come.
class LocalAgent {
  public:
    LocalAgent(const boost::asio::any_io_executor& executor, std::function<void(UpMessage)> on_message)
        : on_message_(std::move(on_message)),
          process_(executor,
                   PipedEvents{.on_output = [this](std::string_view bytes) { said(output_, false, bytes); },
                               .on_error_output =
                                   [this](std::string_view bytes) { said(error_output_, true, bytes); },
                               .on_word = [this](std::string_view bytes) { answered(bytes); },
                               .on_end = [this](const ExitStatus& status) { ended(status); }}) {}

    // Its end is a message, too, and so is a start that failed. `port` 0: it takes a free one and says which.
    void start(StartPlan plan, const Environment& own, int port) {
        const StartNode& node = plan.nodes.front();
        rank_ = node.rank;
        WorkerSpec spec;
        spec.argv = {own_executable()};
        for (const auto& [option, text] : plan.read_options)
            plan.options.push_back(option + "=" + held(text));
        const auto words = agent_words(plan, node, port);
        spec.argv.insert(spec.argv.end(), words.begin(), words.end());
        spec.environment =
            agent_environment(plan.environment, own, {.all = plan.clean_environment, .gpus = plan.own_gpus});
        spec.environment[kStartedVariable] = std::to_string(node.slots);
        std::string hosts;
        for (const std::string& host : plan.host_names) hosts += (hosts.empty() ? "" : ",") + host;
        if (!hosts.empty() && hosts.size() <= kMaxStartedHosts)
            spec.environment[kStartedHostsVariable] = hosts;
        const bool has_python = !plan.python.empty() && ::access(plan.python.c_str(), X_OK) == 0;
        if (has_python && !foreign_owner(plan.python, owners_there(plan.owners, plan.python)))
            spec.environment[kStartedPythonVariable] = plan.python;
        if (!plan.read_program.empty()) spec.environment[kStartedProgramVariable] = held(plan.read_program);
        if (!plan.run_record.empty() && plan.run_record.size() <= kMaxStartedRun)
            spec.environment[kStartedRunVariable] = plan.run_record;
        if (!plan.secret.empty()) spec.environment["DDPRUN_SECRET"] = plan.secret;
        if (!node.devices.empty()) spec.environment["CUDA_VISIBLE_DEVICES"] = node.devices;
        spec.death_signal = 0;  // The agent notices by its line, and decides what that means.
        if (const auto wrong = process_.start(launcher_, std::move(spec), true)) {
            ended_ = true;
            on_message_(HostFailed{{node.rank}, fmt::format("{}: {}", node.target, *wrong), true});
        }
    }

    void signal(int signal) const { process_.signal(signal); }
    void hold(bool is_held) { process_.hold(is_held); }
    bool was_started() const { return rank_.has_value(); }
    bool has_ended() const { return ended_; }
    // It outlives this process.
    void let_go() { process_.let_go(); }

  private:
    // Returns where the agent reads the text.
    std::string held(const std::string& text) {
        texts_.push_back(make_text_file("ddprun-text", text));
        if (!texts_.back()) fail_errno(errno, "cannot hand on what was read from a pipe: memfd_create");
        return fmt::format("/proc/{}/fd/{}", ::getpid(), texts_.back().get());
    }

    void said(LineSplitter& lines, bool is_error, std::string_view bytes) {
        lines.push(bytes, [&](std::string_view block) {
            on_message_(AgentOutput{*rank_, is_error, std::string(block)});
        });
    }

    void answered(std::string_view bytes) {
        words_ += bytes;
        for (auto end = words_.find('\n'); end != std::string::npos; end = words_.find('\n')) {
            const std::string word = words_.substr(0, end);
            words_.erase(0, end + 1);
            if (word == kRunsWord) on_message_(AgentRuns{*rank_});
            if (!word.starts_with(kPortWord)) continue;
            if (const auto port =
                    whole_number<int>(std::string_view(word).substr(kPortWord.size()), 1, 65535))
                on_message_(PortTaken{*port});
        }
        if (words_.size() > kMaxAgentWord) words_.clear();
    }

    void ended(const ExitStatus& status) {
        for (const bool is_error : {false, true}) {
            std::string rest = (is_error ? error_output_ : output_).take_rest();
            if (!rest.empty()) on_message_(AgentOutput{*rank_, is_error, std::move(rest)});
        }
        ended_ = true;
        on_message_(AgentEnded{*rank_, shell_code(status), std::holds_alternative<Signaled>(status)});
    }

    std::function<void(UpMessage)> on_message_;
    SessionLauncher launcher_;
    std::vector<OwnedDescriptor> texts_;
    LineSplitter output_;
    LineSplitter error_output_;
    std::string words_;
    std::optional<int> rank_;
    bool ended_ = false;
    PipedProcess process_;
};

// This much may wait for the process above; then nothing more is read until half of it has gone.
constexpr std::size_t kMaxWaitingUp = 4 * 1024 * 1024;
constexpr std::size_t kRelayReadAtOnce = 64 * 1024;
constexpr const char* kShippedName = "ddprun";

// Writes without making the stream non-blocking for others who have it.
bool write_line(std::string_view line) {
    return ::write(STDOUT_FILENO, line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

class Relay {
  public:
    int run() {
        input_.assign(::dup(STDIN_FILENO));
        output_.assign(::dup(STDOUT_FILENO));
        ::fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
        ::fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK);
        listen();
        await_end_of_host();
        context_.run();
        block_signals();
        agent_.let_go();
        return exit_code_;
    }

  private:
    using Stream = boost::asio::posix::stream_descriptor;

    void listen() {
        input_.async_wait(Stream::wait_read, [this](const boost::system::error_code& error) {
            if (error) return;
            std::array<char, kRelayReadAtOnce> bytes;
            const ssize_t count = ::read(input_.native_handle(), bytes.data(), bytes.size());
            if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return context_.stop();
            if (count > 0) take({bytes.data(), static_cast<std::size_t>(count)});
            if (!context_.stopped()) listen();
        });
    }

    // A scheduler tells all of a job's processes alike. The relay stays, to pass on what the agent then says;
    // and where it is the task of a step, the agent would not outlive it.
    void await_end_of_host() {
        signals_.async_wait([this](const boost::system::error_code& cancelled, int signal) {
            if (cancelled) return;
            await_end_of_host();
            // The starter's tells the agent, and a later one would end its grace.
            if (signal == SIGINT) return;
            is_unwanted_ = true;
            agent_.signal(signal);
            look_for_end();
        });
    }

    void take(std::string_view bytes) {
        frames_.push(bytes);
        while (const auto body = frames_.next()) {
            const auto message = parse_down(*body);
            if (!message) return give_up("what the starter says cannot be understood");
            std::visit([this](const auto& one) { receive(one); }, *message);
        }
        if (frames_.is_broken()) give_up("the starter sends frames that are too long");
    }

    void give_up(const std::string& why) {
        std::fprintf(stderr, "ddprun: %s\n", why.c_str());
        exit_code_ = kExitInternal;
        context_.stop();
    }

    void receive(const StartPlan& plan) {
        if (plan_ || plan.nodes.empty() || plan.fan_out < 2) return give_up("a plan that nobody sends");
        plan_ = plan;
        // What is entered is what was looked at, whoever gives its name to something else meanwhile.
        const OwnedDescriptor folder(::open(plan.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!folder || ::fchdir(folder.get()) != 0)
            return refuse(fmt::format("{}: no working directory {} there: {}", plan.nodes.front().target,
                                      plan.directory, std::strerror(errno)));
        // Any other file keeps its name until it is used, round by round, also below /tmp: nobody else has a
        // part of the way to it.
        auto strange = foreign_file(code_files(plan, own_environment_), plan.owners);
        if (const auto owner = foreign_owner(".", owners_there(plan.owners, plan.directory)))
            strange = {plan.directory, *owner};
        if (strange)
            return refuse(fmt::format("{}: {} belongs to another user there (uid {}), and is not used",
                                      plan.nodes.front().target, strange->first, strange->second));
        branches_.begin(*plan_, branches_of({plan.nodes.begin() + 1, plan.nodes.end()}, plan.fan_out));
        const bool is_node_0 = plan.nodes.front().rank == 0;
        if (is_node_0 || plan.master_port != 0) start_agent(plan.master_port);
    }

    void receive(const BeginAgents& begin) {
        if (!plan_ || agent_.was_started()) return;
        branches_.send(begin);
        start_agent(begin.port);
    }

    void receive(const PassSignal& pass) {
        if (pass.to_all) branches_.send(pass);
        agent_.signal(pass.signal);
    }

    void receive(const EndAgents& end) {
        is_unwanted_ = true;
        branches_.send(end);
        agent_.signal(SIGTERM);
        look_for_end();
    }

    void start_agent(int port) {
        if (!is_unwanted_) agent_.start(*plan_, own_environment_, port);
        look_for_end();
    }

    void refuse(std::string why) {
        HostFailed failed{{}, std::move(why), false};
        for (const StartNode& node : plan_->nodes) failed.ranks.push_back(node.rank);
        pass_up(failed);
        is_unwanted_ = true;
        look_for_end();
    }

    void pass_up(const UpMessage& message) {
        if (!is_heard_) return;
        waiting_ += frame_of(message);
        write_some();
        hold_if_due();
    }

    void write_some() {
        while (written_ < waiting_.size()) {
            const ssize_t count =
                ::write(output_.native_handle(), waiting_.data() + written_, waiting_.size() - written_);
            if (count < 0 && errno == EINTR) continue;
            if (count < 0 && errno == EAGAIN) break;
            if (count < 0) {
                is_heard_ = false;  // The input's end says what that means.
                written_ = waiting_.size();
                break;
            }
            written_ += static_cast<std::size_t>(count);
        }
        if (written_ == waiting_.size() || written_ > kMaxWaitingUp)
            waiting_.erase(0, std::exchange(written_, 0));
        if (waiting_.empty() || is_writing_) return;
        is_writing_ = true;
        output_.async_wait(Stream::wait_write, [this](const boost::system::error_code& error) {
            is_writing_ = false;
            if (error) return;
            write_some();
            hold_if_due();
            look_for_end();
        });
    }

    void hold_if_due() {
        const std::size_t left = waiting_.size() - written_;
        const bool is_due = is_held_ ? left > kMaxWaitingUp / 2 : left > kMaxWaitingUp;
        if (is_due == is_held_) return;
        is_held_ = is_due;
        agent_.hold(is_held_);
        branches_.hold(is_held_);
    }

    void look_for_end() {
        const bool is_done = agent_.was_started() ? agent_.has_ended() : is_unwanted_;
        if (is_done && branches_.are_over() && waiting_.empty()) context_.stop();
    }

    void heard(const UpMessage& message) {
        pass_up(message);
        look_for_end();
    }

    boost::asio::io_context context_{1};
    const Environment own_environment_ = current_environment();
    boost::asio::signal_set signals_{context_, SIGTERM, SIGINT};
    Stream input_{context_};
    Stream output_{context_};
    FrameReader frames_{kMaxFrameDown};
    std::optional<StartPlan> plan_;
    LocalAgent agent_{context_.get_executor(), [this](const UpMessage& message) { heard(message); }};
    HostConnections branches_{context_.get_executor(),
                              {.on_message = [this](const UpMessage& message) { pass_up(message); },
                               .on_over = [this] { look_for_end(); }}};
    std::string waiting_;
    std::size_t written_ = 0;
    int exit_code_ = 0;
    bool is_heard_ = true;
    bool is_writing_ = false;
    bool is_held_ = false;
    bool is_unwanted_ = false;
};

// The running program keeps its file.
void remove_shipped(const std::filesystem::path& folder) {
    std::error_code ignored;
    std::filesystem::remove(folder / kShippedName, ignored);
    std::filesystem::remove(folder, ignored);
}

}  // namespace

int run_relay(const std::vector<std::string>& words) {
    if (words.size() > 1) remove_shipped(words[1]);
    if (words.empty() || words.front() != build_identity()) return kExitOtherBuild;
    ::prctl(PR_SET_NAME, "ddprun-relay");
    if (!write_line(std::string(kHaveLine) + "\n")) return kExitSystem;
    try {
        return Relay().run();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "ddprun: relay: %s\n", error.what());
        return kExitSystem;
    }
}

}  // namespace launch
}  // namespace ddprun
