#include "launcher/view/job_socket.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <list>
#include <optional>
#include <string>
#include <utility>

#include "launcher/view/http_server.hpp"
#include "rendezvous/base/error.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace http = boost::beast::http;

constexpr std::size_t kReadSize = 64 * 1024;

[[noreturn]] void give_up(int error_number) {
    if (error_number == EAGAIN || error_number == EWOULDBLOCK)
        fail(Errc::timed_out, "the launcher does not answer");
    fail_errno(error_number, "cannot talk to the launcher");
}

// The address is good as long as the object lives.
class JobAddress {
  public:
    explicit JobAddress(const std::filesystem::path& folder)
        : folder_(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
        if (!folder_) fail_errno(errno, "cannot open '" + folder.string() + "'");
        address_.sun_family = AF_UNIX;
        fmt::format("/proc/self/fd/{}/{}", folder_.get(), kControlName)
            .copy(address_.sun_path, sizeof address_.sun_path - 1);
    }

    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
    static socklen_t size() { return sizeof(sockaddr_un); }

  private:
    OwnedDescriptor folder_;
    sockaddr_un address_{};
};

OwnedDescriptor unix_socket(int flags) {
    OwnedDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
    if (!socket) fail_errno(errno, "cannot make a unix socket");
    return socket;
}

void limit_waits(int socket, std::chrono::milliseconds timeout) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(timeout);
    timeval time{};
    time.tv_sec = seconds.count();
    time.tv_usec = std::chrono::microseconds(timeout - seconds).count();
    for (int direction : {SO_SNDTIMEO, SO_RCVTIMEO}) {
        if (::setsockopt(socket, SOL_SOCKET, direction, &time, sizeof time) != 0) give_up(errno);
    }
}

using AnswerParser = http::response_parser<http::string_body>;

// Takes what has come; `is_all`: nothing comes any more.
void take_part(AnswerParser& parser, std::string& text, bool is_all) {
    boost::system::error_code error;
    while (!text.empty() && !parser.is_done() && !error)
        text.erase(0, parser.put(boost::asio::buffer(text), error));
    if (error == http::error::need_more) error = {};
    if (is_all && parser.got_some() && !error) parser.put_eof(error);
    if (error == http::error::body_limit) fail(Errc::limit_exceeded, "the launcher's answer is too long");
    if (is_all && (!parser.got_some() || error == http::error::partial_message))
        fail(Errc::closed, "the launcher gave no answer");
    if (error) fail(Errc::protocol_violation, "the launcher's answer is not understood");
}

OwnedDescriptor connected(const std::filesystem::path& folder, OwnedDescriptor socket) {
    const JobAddress address(folder);
    if (::connect(socket.get(), address.get(), JobAddress::size()) != 0) give_up(errno);
    return socket;
}

OwnedDescriptor request(OwnedDescriptor socket, http::verb verb, const std::string& target) {
    const std::string text =
        fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", std::string(http::to_string(verb)), target,
                    verb == http::verb::post ? "Content-Length: 0\r\n" : "");
    // A request fits into the socket's buffer as a whole.
    if (::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) give_up(errno);
    return socket;
}

// Appends what comes next; returns false where nothing comes any more.
bool receive(int socket, std::string& text) {
    std::array<char, kReadSize> buffer;
    for (;;) {
        const ssize_t count = ::recv(socket, buffer.data(), buffer.size(), 0);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) give_up(errno);
        text.append(buffer.data(), static_cast<std::size_t>(count));
        return count > 0;
    }
}

// OpenAnswer: what a launcher says to one question, as it comes.
class OpenAnswer {
  public:
    explicit OpenAnswer(OwnedDescriptor socket) : socket_(std::move(socket)) {
        parser_.body_limit(kMaxAnswer);
    }

    int socket() const { return socket_.get(); }
    const std::string& text() const { return parser_.get().body(); }
    unsigned status() const { return parser_.get().result_int(); }

    // Takes what comes next; returns whether that was all. Throws Error.
    bool take() {
        const bool is_all = !receive(socket_.get(), come_);
        take_part(parser_, come_, is_all);
        return parser_.is_done();
    }

  private:
    OwnedDescriptor socket_;
    AnswerParser parser_;
    std::string come_;
};

struct WholeAnswer {
    unsigned status = 0;
    std::string text;
};

WholeAnswer ask(const std::filesystem::path& folder, http::verb verb, const std::string& target,
                std::chrono::milliseconds timeout) {
    OpenAnswer answer(request(call_job(folder, timeout), verb, target));
    while (!answer.take()) {
    }
    return {answer.status(), answer.text()};
}

template <class T>
T understood(std::optional<T> answer) {
    if (!answer) fail(Errc::protocol_violation, "the launcher's answer is not understood");
    return *std::move(answer);
}

}  // namespace

OwnedDescriptor listen_job_socket(const std::filesystem::path& folder) {
    const JobAddress address(folder);
    OwnedDescriptor listener = unix_socket(SOCK_NONBLOCK);
    // The mode of the socket's file is what its descriptor's was.
    if (::fchmod(listener.get(), S_IRUSR | S_IWUSR) != 0 ||
        ::bind(listener.get(), address.get(), JobAddress::size()) != 0 ||
        ::listen(listener.get(), SOMAXCONN) != 0)
        fail_errno(errno, "cannot listen in '" + folder.string() + "'");
    return listener;
}

OwnedDescriptor call_job(const std::filesystem::path& folder, std::chrono::milliseconds timeout) {
    OwnedDescriptor socket = unix_socket(0);
    limit_waits(socket.get(), timeout);
    return connected(folder, std::move(socket));
}

JobView ask_status(const std::filesystem::path& folder, std::chrono::milliseconds timeout) {
    return understood(parse_job_view(ask(folder, http::verb::get, std::string(kStatusTarget), timeout).text));
}

std::vector<std::optional<JobView>> ask_statuses(const std::vector<std::filesystem::path>& folders,
                                                 std::chrono::milliseconds timeout) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    std::vector<std::optional<JobView>> views(folders.size());
    std::list<std::pair<std::size_t, OpenAnswer>> open;
    // Calls `part`; a launcher that ends, or says nothing of use, keeps no other from being asked.
    const auto without_errors = [](const auto& part) {
        try {
            return part();
        } catch (const Error&) {
            return true;
        }
    };
    for (std::size_t i = 0; i < folders.size(); ++i) {
        without_errors([&] {
            open.emplace_back(i, request(connected(folders[i], unix_socket(SOCK_NONBLOCK)), http::verb::get,
                                         std::string(kStatusTarget)));
            return true;
        });
    }
    while (!open.empty()) {
        std::vector<pollfd> events;
        for (const auto& [i, answer] : open) events.push_back({answer.socket(), POLLIN, 0});
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0) break;
        if (::poll(events.data(), events.size(), static_cast<int>(left.count())) < 0 && errno != EINTR) break;
        auto event = events.cbegin();
        std::erase_if(open, [&](auto& entry) {
            return (event++)->revents != 0 && without_errors([&] {
                       const bool is_all = entry.second.take();
                       if (is_all) views[entry.first] = parse_job_view(entry.second.text());
                       return is_all;
                   });
        });
    }
    return views;
}

StreamReader::StreamReader(const std::filesystem::path& folder, const StreamTerms& terms)
    : socket_(request(call_job(folder, kAnswerTimeout), http::verb::get, stream_target(terms))) {
    constexpr std::string_view kGood = "HTTP/1.1 200 ";
    constexpr std::string_view kBlankLine = "\r\n\r\n";
    std::size_t end = 0;
    while ((end = lines_.find(kBlankLine)) == lines_.npos) {
        if (lines_.size() > kReadSize || !receive(socket_.get(), lines_))
            fail(Errc::closed, "the launcher gave no answer");
    }
    if (!lines_.starts_with(kGood))
        fail(Errc::refused, fmt::format("the launcher has {} clients that follow the job, and takes no more",
                                        ServerLimits::kMaxStreams));
    lines_.erase(0, end + kBlankLine.size());
    limit_waits(socket_.get(), {});
}

std::optional<StreamLine> StreamReader::next(int interrupt) {
    for (;;) {
        const std::size_t end = lines_.find('\n', looked_);
        if (end != lines_.npos) {
            const std::string line = lines_.substr(0, end);
            lines_.erase(0, end + 1);
            looked_ = 0;
            return understood(parse_stream_line(line));
        }
        looked_ = lines_.size();
        if (looked_ > kMaxAnswer) fail(Errc::limit_exceeded, "the launcher's answer is too long");
        std::array<pollfd, 2> events{{{socket_.get(), POLLIN, 0}, {interrupt, POLLIN, 0}}};
        if (::poll(events.data(), events.size(), -1) < 0 && errno != EINTR) give_up(errno);
        if (events[1].revents != 0) return std::nullopt;
        if (events[0].revents != 0 && !receive(socket_.get(), lines_)) return std::nullopt;
    }
}

StacksAnswer ask_stacks(const std::filesystem::path& folder, const StacksTerms& terms,
                        std::chrono::milliseconds timeout) {
    WholeAnswer answer = ask(folder, http::verb::get, stacks_target(terms), timeout);
    if (answer.status == kHttpOk) return {{}, std::move(answer.text)};
    if (answer.status != kHttpConflict) fail(Errc::refused, "the job's launcher does not tell stacks");
    return {understood(refusal_in(answer.text)), {}};
}

SignalEffect send_signal(const std::filesystem::path& folder, int signal, std::chrono::milliseconds timeout) {
    return understood(
        parse_signal_effect(ask(folder, http::verb::post, signal_target(signal), timeout).text));
}

}  // namespace launch
}  // namespace ddprun
