#include "launcher/output/log_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <random>
#include <sstream>

#include "tests/launcher/worker_fixture.hpp"
#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string numbered_line(int number) { return "line " + std::to_string(number) + " of the log\n"; }

// Takes `room` bytes in all, as a disk does that is filling up; room can be made again.
class FullDisk {
  public:
    explicit FullDisk(std::size_t room) : room_(room) {}

    LogFile::WriteFunction writer() {
        return [this](int fd, const void* bytes, std::size_t size, off_t offset) -> ssize_t {
            if (room_ == 0) {
                errno = ENOSPC;
                return -1;
            }
            const ssize_t count = ::pwrite(fd, bytes, std::min(size, room_), offset);
            room_ -= static_cast<std::size_t>(std::max<ssize_t>(count, 0));
            return count;
        };
    }

    void make_room(std::size_t room) { room_ = room; }

  private:
    std::size_t room_;
};

}  // namespace

TEST_CASE("a log file holds what was written, from its beginning") {
    TemporaryFolder folder;
    const std::string path = folder.file("log", "old text that was longer than the new one");
    {
        LogFile file(path, 0);
        file.write("one\n");
        file.write("");
        file.write("two");
        CHECK(text_of(path) == "one\ntwo");
        CHECK(file.dropped() == 0);
    }
    CHECK(text_of(path) == "one\ntwo");
}

TEST_CASE("an unfinished line is shown until its place is taken") {
    TemporaryFolder folder;
    const std::string path = folder.path() / "log";
    {
        LogFile file(path, 0);
        file.write("begin\n");
        file.show_unfinished("10 percent");
        CHECK(text_of(path) == "begin\n10 percent");
        file.show_unfinished("20%");
        CHECK(text_of(path) == "begin\n20%");
        file.write("ok\n");
        CHECK(text_of(path) == "begin\nok\n");
        file.show_unfinished("half");
        file.write("half a line, and more\n");
        CHECK(text_of(path) == "begin\nok\nhalf a line, and more\n");
        file.show_unfinished("gone");
    }
    CHECK(text_of(path) == "begin\nok\nhalf a line, and more\n");
}

TEST_CASE("what a full disk does not take is dropped and counted, and room is used again") {
    TemporaryFolder folder;
    const std::string path = folder.path() / "log";
    FullDisk disk(10);
    LogFile file(path, 0, disk.writer());
    file.write("12345678\n");
    CHECK(file.dropped() == 0);
    file.write("abcdef\n");
    CHECK(file.dropped() == 6);
    CHECK(file.error_number() == ENOSPC);
    file.write("xyz\n");
    file.show_unfinished("xyz");
    CHECK(file.dropped() == 10);
    disk.make_room(100);
    file.write("later\n");
    CHECK(file.dropped() == 10);
    CHECK(text_of(path) == "12345678\nalater\n");
}

TEST_CASE("a disk that fills up while a limit is kept loses only what does not fit") {
    TemporaryFolder folder;
    FullDisk disk(6000);
    LogFile file(folder.path() / "log", 4096, disk.writer());
    std::uint64_t given = 0;
    for (int i = 0; i < 2000; ++i) {
        file.write(numbered_line(i));
        given += numbered_line(i).size();
    }
    CHECK(file.dropped() > 0);
    CHECK(file.dropped() < given);
    CHECK(std::filesystem::file_size(file.path()) <= 4096);
    CHECK(text_of(file.path()).rfind(numbered_line(0), 0) == 0);
}

TEST_CASE("a file that cannot be created drops everything and says why") {
    TemporaryFolder folder;
    LogFile file(folder.path() / "not" / "there", 0);
    file.write("12345");
    file.show_unfinished("x");
    CHECK(file.dropped() == 5);
    CHECK(file.error_number() == ENOENT);
}

TEST_CASE("with a limit the head and the tail are kept, whole lines, and one line says what is not there") {
    const unsigned seed = std::random_device()();
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const std::uint64_t limit = GENERATE(4096, 10'000, 65'536);
    const int lines = GENERATE(100, 1'000, 20'000);
    CAPTURE(limit, lines);
    TemporaryFolder folder;
    LogFile file(folder.path() / "log", limit);
    std::uniform_int_distribution<int> together(1, 300);
    std::string all;
    bool bounded = true;
    for (int i = 0; i < lines;) {
        std::string block;
        for (int count = together(random); count > 0 && i < lines; --count) block += numbered_line(i++);
        all += block;
        file.write(block);
        bounded = bounded && std::filesystem::file_size(file.path()) <= limit;
    }
    const std::string text = text_of(file.path());
    CHECK(bounded);
    CHECK(file.dropped() == 0);
    if (all.size() <= limit) {
        CHECK(text == all);
        return;
    }
    CHECK(text.size() > limit / 3);
    const auto note = text.find("\n[ddprun: ");
    REQUIRE(note != std::string::npos);
    const std::string head = text.substr(0, note);
    const auto tail_at = text.find('\n', note + 1) + 1;
    const std::string tail = text.substr(tail_at);
    CHECK(head.back() == '\n');
    CHECK(all.rfind(head, 0) == 0);
    CHECK(head.size() > limit / 8);
    CHECK(all.substr(all.size() - tail.size()) == tail);
    CHECK(tail.rfind("line ", 0) == 0);
    CHECK(tail.size() > limit / 4);
    const std::uint64_t left_out = all.size() - head.size() - tail.size();
    CHECK(text.substr(note + 10).rfind(std::to_string(left_out) + " bytes were left out here", 0) == 0);
    CHECK(text.find("[ddprun: ", note + 10) == std::string::npos);
}

TEST_CASE("a limit is kept also where there is no line end") {
    TemporaryFolder folder;
    LogFile file(folder.path() / "log", 20'000);
    const std::string piece(7'000, 'x');
    for (int i = 0; i < 50; ++i) file.write(piece);
    CHECK(std::filesystem::file_size(file.path()) <= 20'000);
    CHECK(file.dropped() == 0);
}

TEST_CASE("what others have cut goes on without a hole, whatever was shown or left out") {
    TemporaryFolder folder;
    for (const std::uint64_t limit : {0U, 400U}) {
        CAPTURE(limit);
        const std::string path = folder.file("log" + std::to_string(limit), "");
        const auto cut = [&path] { CHECK(::truncate(path.c_str(), 0) == 0); };
        LogFile file(path, limit);
        for (int number = 0; number < 30; ++number) file.write(numbered_line(number));
        cut();
        file.write("after\n");
        CHECK(text_of(path) == "after\n");
        file.show_unfinished("begun");
        cut();
        file.write("begun and ended\n");
        CHECK(text_of(path) == "begun and ended\n");
        cut();
        file.show_unfinished("begun");
        CHECK(text_of(path) == "begun");
        file.write("begun again\n");
        CHECK(text_of(path) == "begun again\n");
        cut();
        for (int number = 0; number < 30; ++number) file.write(numbered_line(number));
        CHECK(text_of(path).find('\0') == std::string::npos);
        CHECK(text_of(path).starts_with(numbered_line(0)));
        CHECK(text_of(path).ends_with(numbered_line(29)));
        CHECK((limit == 0 || text_of(path).size() <= limit));
    }
}

TEST_CASE("what others append stays") {
    TemporaryFolder folder;
    const std::string path = folder.file("log", "");
    LogFile file(path, 0);
    file.write("one\n");
    file.show_unfinished("be");
    std::ofstream(path, std::ios::app) << "theirs\n";
    file.write("begun\n");
    CHECK(text_of(path) == "one\nbetheirs\nbegun\n");
}

}  // namespace ddprun
