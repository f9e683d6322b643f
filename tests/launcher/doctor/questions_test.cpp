#include "launcher/doctor/questions.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <new>

#include "tests/support/catch.hpp"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

Deadline hang_guard() { return std::chrono::steady_clock::now() + std::chrono::seconds(60); }
Deadline at_once() { return std::chrono::steady_clock::now(); }

BoundedChild::Answer answer_to(const std::function<void()>& ask) {
    return BoundedChild(ask).await(hang_guard());
}

FolderFacts facts_of(const FolderQuestion& question) {
    return folder_facts(question, answer_to(ask_folder(question)));
}

struct DoctorFolder {
    DoctorFolder() {
        std::string name = (fs::temp_directory_path() / "doctor_test_XXXXXX").string();
        path = ::mkdtemp(name.data());
    }
    ~DoctorFolder() { fs::remove_all(path); }
    fs::path path;
};

bool is_gone(pid_t pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; }

// A killed child that the kernel ends only after BoundedChild has stopped waiting for it.
bool comes_to_an_end(pid_t pid) {
    const Deadline guard = hang_guard();
    // No event tells when.
    while (::waitpid(pid, nullptr, WNOHANG) == 0 && !has_passed(guard)) ::usleep(1000);
    return is_gone(pid);
}

}  // namespace

TEST_CASE("a child's answer arrives, and the child is reaped") {
    bool is_reaped = false;
    // One may take longer to end than it is waited for.
    for (int i = 0; i < 10 && !is_reaped; ++i) {
        BoundedChild child([] { [[maybe_unused]] const auto sent = ::write(STDOUT_FILENO, "here", 4); });
        const pid_t pid = child.pid();
        const auto answer = child.await(hang_guard());
        CHECK(answer.end == AnswerEnd::answered);
        CHECK(answer.bytes == "here");
        is_reaped = is_gone(pid);
    }
    CHECK(is_reaped);
}

TEST_CASE("a child that hangs is killed with what it has started") {
    // Where the child says who its own child is.
    void* const place = ::mmap(nullptr, sizeof(std::atomic<pid_t>), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(place != MAP_FAILED);
    auto* const below = new (place) std::atomic<pid_t>(0);
    BoundedChild child([below] {
        const pid_t started = ::fork();
        if (started > 0) *below = started;
        for (;;) ::pause();
    });
    const pid_t pid = child.pid();
    const Deadline guard = hang_guard();
    // That another process writes there is no event for us.
    while (*below == 0 && !has_passed(guard)) ::usleep(1000);
    REQUIRE(*below > 0);
    CHECK(child.await(at_once()).end == AnswerEnd::hangs);
    CHECK(comes_to_an_end(pid));
    const auto runs = [&] {
        std::ifstream stat("/proc/" + std::to_string(*below) + "/stat");
        std::string line;
        return std::getline(stat, line) && line.find(") Z ") == std::string::npos;
    };
    // The end of what is no child of ours is no event for us.
    while (runs() && !has_passed(guard)) ::usleep(1000);
    CHECK_FALSE(runs());
    ::munmap(place, sizeof(std::atomic<pid_t>));
}

TEST_CASE("a child that nobody waits for goes with its object") {
    bool is_reaped = false;
    for (int i = 0; i < 10 && !is_reaped; ++i) {
        pid_t pid = -1;
        {
            const BoundedChild child([] {
                for (;;) ::pause();
            });
            pid = child.pid();
        }
        is_reaped = is_gone(pid);
        CHECK(comes_to_an_end(pid));
    }
    CHECK(is_reaped);
}

TEST_CASE("a child has no descriptors of its parent's, and says no more than the limit") {
    const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    const std::string name = "/proc/self/fd/" + std::to_string(fd);
    const auto answer = answer_to([&name] {
        const bool is_open = ::access(name.c_str(), F_OK) == 0;
        [[maybe_unused]] const auto sent = ::write(STDOUT_FILENO, is_open ? "open" : "shut", 4);
    });
    ::close(fd);
    CHECK(answer.bytes == "shut");
    const auto endless = answer_to([] {
        for (;;) {
            if (::write(STDOUT_FILENO, "xxxxxxxx", 8) < 0) return;
        }
    });
    CHECK(endless.bytes.size() <= kMaxChildAnswer + 4096);
}

TEST_CASE("a folder that is in order") {
    const DoctorFolder folder;
    const FolderFacts facts = facts_of({"temporary files", folder.path.string()});
    CHECK(facts.end == AnswerEnd::answered);
    CHECK(facts.failed_step == "");
    CHECK(facts.role == "temporary files");
    CHECK(facts.size > 0);
    CHECK(fs::is_empty(folder.path));
}

TEST_CASE("a folder that is not there, or is none, is said with its error") {
    const DoctorFolder folder;
    const std::string missing = (folder.path / "a" / "b").string();
    CHECK(facts_of({"logs", missing}).error_number == ENOENT);
    CHECK(facts_of({"logs", missing}).failed_step == "cannot be entered");
    const FolderFacts made = facts_of({"logs", missing, true, true});
    CHECK(made.failed_step == "");
    CHECK(made.tried == folder.path.string());
    std::ofstream(folder.path / "file") << "text";
    CHECK(facts_of({"logs", (folder.path / "file").string(), true, true}).error_number == ENOTDIR);
    CHECK(facts_of({"logs", "/proc"}).failed_step == "no file can be made");
    CHECK(facts_of({"current folder", "/proc", false}).failed_step == "");
}

TEST_CASE("the answers of children that died or hang are no facts") {
    const FolderQuestion question{"logs", "/tmp"};
    CHECK(folder_facts(question, {AnswerEnd::answered, "torn"}).end == AnswerEnd::failed);
    CHECK(folder_facts(question, {AnswerEnd::hangs, ""}).end == AnswerEnd::hangs);
    BoundedChild child([] {
        for (;;) ::pause();
    });
    CHECK(folder_facts(question, child.await(at_once())).end == AnswerEnd::hangs);
}

TEST_CASE("names are resolved by a child") {
    CHECK(name_facts(answer_to(ask_name("127.0.1.1"))).addresses == std::vector<std::string>{"127.0.1.1"});
    const NameFacts none = name_facts(answer_to(ask_name("no name at all")));
    CHECK(none.addresses.empty());
    CHECK_FALSE(none.why.empty());
    CHECK_FALSE(name_facts({AnswerEnd::answered, ""}).why.empty());
}

TEST_CASE("of what Python prints only our lines count") {
    const std::string said =
        "ddprun-doctor-file /venv/bin/python3\nnoise of a site\nddprun-doctor-python 3.11.2\n"
        "ddprun-doctor-torch 2.6.0 in /venv\n";
    const PythonFacts facts = python_facts("python3", {AnswerEnd::answered, said});
    CHECK(facts.file == "/venv/bin/python3");
    CHECK(facts.version == "3.11.2");
    CHECK(facts.torch == "2.6.0 in /venv");
    const PythonFacts none = python_facts("python3", answer_to(ask_python({"/nonexistent/python3", "/tmp"})));
    CHECK(none.file.empty());
    CHECK(none.end == AnswerEnd::answered);
    // It runs, and is no Python.
    const PythonFacts other = python_facts("python3", answer_to(ask_python({"/nonexistent", "/bin/true"})));
    CHECK(other.file == "/bin/true");
    CHECK(other.version.empty());
}

}  // namespace ddprun
