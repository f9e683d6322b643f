#include "launcher/features/failure_judge.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>
#include <vector>

#include "launcher/harmless_text.hpp"
#include "launcher/process/descriptors.hpp"
#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/system/owned_descriptor.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

struct QuestionRules : JsonRules {
    static std::string text(const std::string& text, std::size_t) { return valid_utf8(text); }
};

std::vector<std::string_view> words_of(std::string_view line) {
    constexpr std::string_view kBlanks = " \t\r";
    std::vector<std::string_view> words;
    for (;;) {
        line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
        if (line.empty()) return words;
        words.push_back(line.substr(0, line.find_first_of(kBlanks)));
        line.remove_prefix(words.back().size());
    }
}

constexpr std::size_t kShownAnswer = 80;

std::string no_start(const char* call) { return fmt::format("{}: {}", call, std::strerror(errno)); }

}  // namespace

std::string to_json(const FailureQuestion& question, const Failure& failure) {
    boost::json::object root;
    put_members<QuestionRules>(root, question);
    put_members<QuestionRules>(root, failure);
    return boost::json::serialize(root) + "\n";
}

std::optional<Judgement> parse_answer(std::string_view said) {
    const auto words = words_of(said.substr(0, said.find('\n')));
    if (words.size() == 1 && words[0] == "restart") return Judgement{.answer = Judgement::Answer::restart};
    if (words.size() == 1 && words[0] == "stop") return Judgement{.answer = Judgement::Answer::stop};
    if (words.size() != 2 || words[0] != "exclude") return std::nullopt;
    const auto node = whole_number<int>(words[1]);
    if (!node || *node < 0) return std::nullopt;
    return Judgement{.answer = Judgement::Answer::exclude, .node = *node};
}

FailureJudge::FailureJudge(const boost::asio::any_io_executor& executor, ProcessRunner& runner,
                           std::chrono::milliseconds timeout)
    : runner_(runner), timeout_(timeout), output_(executor), timer_(executor) {}

void FailureJudge::ask(const Question& question, Done done) {
    stop();
    done_ = std::move(done);
    said_.clear();
    overdue_ = false;
    if (const auto trouble = start(question)) {
        boost::asio::post(output_.get_executor(),
                          alive_.guard([this, trouble = *trouble] { answer({}, trouble); }));
        return;
    }
    listen();
    timer_.expires_after(timeout_);
    timer_.async_wait(alive_.guard([this](boost::system::error_code cancelled) {
        if (cancelled || pid_ == 0) return;
        overdue_ = true;
        runner_.signal_worker(pid_, SIGKILL, SignalScope::group);
    }));
}

// Returns why there is no program now.
std::optional<std::string> FailureJudge::start(const Question& question) {
    const OwnedDescriptor input = make_text_file("ddprun-failure", question.text);
    if (!input) return no_start("memfd_create");
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return no_start("pipe");
    OwnedDescriptor reader(ends[0]);
    const OwnedDescriptor writer = above_standard_streams(OwnedDescriptor(ends[1]));
    if (!writer || ::fcntl(reader.get(), F_SETFL, O_NONBLOCK) != 0) return no_start("pipe");
    const WorkerSpec spec{.argv = {question.program},
                          .environment = question.environment,
                          .local_rank = question.local_rank,
                          .standard_input = GivenDescriptor{input.get()},
                          .standard_output = GivenDescriptor{writer.get()}};
    const auto result = runner_.start(spec, *this);
    if (const auto* failure = std::get_if<StartFailure>(&result)) return failure->text;
    pid_ = std::get<Started>(result).pid;
    boost::system::error_code ignored;  // What was open before has been read.
    output_.close(ignored);
    output_.assign(reader.release());
    return std::nullopt;
}

void FailureJudge::listen() {
    output_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                       alive_.guard([this](const boost::system::error_code& error) {
                           if (!error && pid_ != 0 && read_some()) listen();
                       }));
}

// False at the end, and where somebody writes without end once nothing more counts.
bool FailureJudge::read_some() {
    std::array<char, kMaxAnswer> bytes{};
    const ssize_t count = ::read(output_.native_handle(), bytes.data(), bytes.size());
    if (count <= 0) return count < 0 && (errno == EAGAIN || errno == EINTR);
    said_.append(bytes.data(), std::min(static_cast<std::size_t>(count), kMaxAnswer - said_.size()));
    return true;
}

void FailureJudge::worker_exited(pid_t program, const ExitStatus& status) {
    timer_.cancel();
    pid_ = 0;
    runner_.signal_worker(program, SIGKILL, SignalScope::group);
    runner_.forget(program);
    // The program said before its end what is in the pipe by now.
    read_some();
    boost::system::error_code ignored;  // Whatever it is, nothing more is read.
    output_.close(ignored);
    if (overdue_) {
        const double seconds = std::chrono::duration<double>(timeout_).count();
        return answer({}, fmt::format("has not ended within {:g} s and was killed", seconds));
    }
    if (!succeeded(status)) return answer({}, "ended by " + to_string(status));
    if (const auto judgement = parse_answer(said_)) return answer(*judgement, {});
    const std::string first = harmless_output_line(said_.substr(0, said_.find('\n')), kShownAnswer);
    answer({}, first.empty() ? "said nothing"
                             : fmt::format("said '{}', not restart, stop or exclude NODE", first));
}

void FailureJudge::answer(const Judgement& judgement, const std::string& trouble) {
    if (const auto done = std::exchange(done_, {})) done(judgement, trouble);
}

void FailureJudge::stop() {
    done_ = {};
    timer_.cancel();
    if (pid_ == 0) return;
    runner_.signal_worker(pid_, SIGKILL, SignalScope::group);
    runner_.forget(std::exchange(pid_, 0));
}

namespace {

class JudgeFeature final : public Feature {
  public:
    void began(AgentControls& agent) override {
        agent_ = &agent;
        judge_.emplace(agent.executor(), agent.runner());
    }
    bool answers_failures() const override { return true; }
    void heard(const ControlMessage& message) override {
        // A round whose workers cannot be started is asked about, too, and round_begins() may not come in it.
        if (const auto* ready = std::get_if<RoundReady>(&message)) round_ = *ready;
        const auto* asked = std::get_if<JudgeFailure>(&message);
        if (asked == nullptr) return;
        round_.job_id = agent_->status().job_id;  // in the form that workers have
        judge_->ask(question_about(asked->failure), [this, round = asked->round](Judgement judgement,
                                                                                 const std::string& trouble) {
            if (!trouble.empty())
                agent_->say(LogLevel::warn, "--on-failure " + program() + ": " + harmless_line(trouble) +
                                                "; ddprun decides by itself");
            judgement.round = round;
            agent_->send(judgement);
        });
    }
    // The job is over; the runner that has started the program takes nothing more after that.
    void learnt(const AgentNews& news) override {
        const auto* change = std::get_if<StateChanged>(&news);
        if (change != nullptr && change->after == AgentState::draining_output) judge_->stop();
    }
    void agent_leaves() override { judge_.reset(); }

  private:
    const std::string& program() const {
        return agent_->options().features.of<FailureJudgeOptions>().program;
    }
    FailureJudge::Question question_about(const Failure& failure) const {
        const LaunchOptions& options = agent_->options();
        FailureJudge::Question question{.program = program(), .environment = options.environment};
        question.text = to_json({options.run_id, round_.job_id, round_.round, round_.restart_count,
                                 round_.max_restarts, round_.group_world_size},
                                failure);
        question.environment["DDPRUN_RUN_ID"] = round_.job_id;
        question.local_rank = static_cast<int>(options.workers.size());
        return question;
    }

    AgentControls* agent_ = nullptr;
    RoundReady round_;
    std::optional<FailureJudge> judge_;
};

}  // namespace

std::unique_ptr<Feature> make_failure_judge(const FeatureInputs&) { return std::make_unique<JudgeFeature>(); }

}  // namespace launch
}  // namespace ddprun
