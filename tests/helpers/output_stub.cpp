// output_stub: a worker that prints as the modes on its command line say, one after the other; then it exits
// 0. Texts may hold \n, \r and \e. Nothing is buffered here: one write for each thing that is printed.
//
//   out TEXT             writes TEXT on stdout
//   err TEXT             writes TEXT on stderr
//   scatter SEED LINES   writes LINES numbered lines on stdout and as many on stderr, cut into chunks at
//   random flood BYTES WIDTH    writes so many bytes on stdout, in lines of WIDTH bytes with their newline
//   terminal             writes for stdout, then stderr: "tty COLUMNSxROWS" or "no tty"
//   keep-open            leaves a child behind, in a session of its own, that keeps both streams open and
//   waits;
//                        writes "pid CHILD" on stdout
//   babble               like keep-open, but the child writes lines on stderr without end
//   kill                 ends itself with SIGKILL
//   wait                 waits for ever
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>

namespace {

constexpr int kUsage = 64;
constexpr std::size_t kFloodWrite = 64 * 1024;

std::string decoded(std::string_view text) {
    std::string result;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] != '\\' || at + 1 == text.size()) {
            result += text[at];
            continue;
        }
        const char code = text[++at];
        result += code == 'n' ? '\n' : code == 'r' ? '\r' : code == 'e' ? '\x1b' : code;
    }
    return result;
}

void write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t count = ::write(fd, text.data(), text.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) ::_exit(kUsage);
        text.remove_prefix(static_cast<std::size_t>(count));
    }
}

// One of the two streams of `scatter`.
struct Scatter {
    int fd;
    std::string text;
    std::size_t written = 0;
};

void scatter(unsigned seed, int lines) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> width(0, 120);
    std::uniform_int_distribution<std::size_t> chunk(1, 700);
    Scatter streams[] = {{STDOUT_FILENO, {}}, {STDERR_FILENO, {}}};
    for (int i = 0; i < lines; ++i) {
        for (Scatter& stream : streams) {
            stream.text += (stream.fd == STDOUT_FILENO ? "o" : "e") + std::to_string(seed) + " " +
                           std::to_string(i) + " " +
                           std::string(static_cast<std::size_t>(width(random)), 'x') + "\n";
        }
    }
    while (streams[0].written < streams[0].text.size() || streams[1].written < streams[1].text.size()) {
        Scatter& stream = streams[random() % 2];
        const auto part = std::string_view(stream.text).substr(stream.written, chunk(random));
        write_all(stream.fd, part);
        stream.written += part.size();
    }
}

void flood(std::size_t bytes, std::size_t width) {
    std::string line(width, 'x');
    line.back() = '\n';
    std::string block;
    while (block.size() + width <= std::max(kFloodWrite, width)) block += line;
    for (std::size_t left = bytes; left > 0;) {
        const std::size_t size = std::min(left, block.size());
        write_all(STDOUT_FILENO, std::string_view(block).substr(0, size));
        left -= size;
    }
}

void describe_terminal(int fd) {
    winsize size{};
    if (::isatty(fd) != 1 || ::ioctl(fd, TIOCGWINSZ, &size) != 0) return write_all(STDOUT_FILENO, "no tty\n");
    write_all(STDOUT_FILENO, "tty " + std::to_string(size.ws_col) + "x" + std::to_string(size.ws_row) + "\n");
}

void leave_behind(bool babbles) {
    int ready[2];
    if (::pipe(ready) != 0) ::_exit(kUsage);
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::setsid();
        ::signal(SIGPIPE, SIG_DFL);
        ::close(ready[0]);
        ::close(ready[1]);
        while (babbles) write_all(STDERR_FILENO, "babble babble babble\n");
        for (;;) ::pause();
    }
    ::close(ready[1]);
    char byte = 0;
    while (::read(ready[0], &byte, 1) < 0 && errno == EINTR) {
    }
    write_all(STDOUT_FILENO, "pid " + std::to_string(pid) + "\n");
}

}  // namespace

int main(int argc, char** argv) {
    const auto number = [&](int at) { return at < argc ? std::strtoul(argv[at], nullptr, 10) : 0; };
    for (int at = 1; at < argc; ++at) {
        const std::string_view mode = argv[at];
        if ((mode == "out" || mode == "err") && at + 1 < argc) {
            write_all(mode == "out" ? STDOUT_FILENO : STDERR_FILENO, decoded(argv[++at]));
        } else if (mode == "scatter") {
            scatter(static_cast<unsigned>(number(at + 1)), static_cast<int>(number(at + 2)));
            at += 2;
        } else if (mode == "flood") {
            flood(number(at + 1), number(at + 2));
            at += 2;
        } else if (mode == "terminal") {
            describe_terminal(STDOUT_FILENO);
            describe_terminal(STDERR_FILENO);
        } else if (mode == "keep-open" || mode == "babble") {
            leave_behind(mode == "babble");
        } else if (mode == "kill") {
            ::kill(::getpid(), SIGKILL);
        } else if (mode == "wait") {
            for (;;) ::pause();
        } else {
            std::fprintf(stderr, "output_stub: unknown mode '%s'\n", argv[at]);
            return kUsage;
        }
    }
    return 0;
}
