#include "launcher/start/code_files.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <set>
#include <string_view>

#include "launcher/plan/program_words.hpp"
#include "launcher/process/child_exec.hpp"
#include "launcher/start/code_words.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/system/small_file.hpp"
#include "rendezvous/text/split.hpp"

namespace ddprun {
inline namespace launch {
namespace {

namespace fs = std::filesystem;
using Look = CodeFile::Look;

// Bytes of names in a plan, which has room for more.
constexpr std::size_t kMaxOwnedNames = 8 * 1024 * 1024;

// Entries of folders that are read.
constexpr std::size_t kMaxListed = 256 * 1024;

// What the agent starts, or what first lines of scripts name behind env, without a word of the command's.
constexpr std::string_view kImpliedCommands[] = {"python3", "python", "sh", "bash", "env", "perl"};

// What lies in a home that Python and zsh execute before a program.
constexpr std::string_view kHomesCode[] = {".local", ".zshenv"};

bool exists(const std::string& name) {
    struct stat info {};
    return ::lstat(name.c_str(), &info) == 0;
}

bool is_folder(const std::string& name) {
    struct stat info {};
    return ::stat(name.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool others_make_names_in(const std::string& folder) {
    struct stat info {};
    return ::stat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && others_may_write(info);
}

std::string folder_of_name(const std::string& name) {
    const std::string folder = fs::path(name).parent_path().string();
    return folder.empty() ? "." : folder;
}

// CodeSearch collects the files; each function adds those of one kind.
class CodeSearch {
  public:
    CodeSearch(const StartPlan& plan, const Environment& own)
        : plan_(plan), words_(plan.program), before_program_(modules_before_program()) {
        words_.insert(words_.end(), plan.options.begin(), plan.options.end());
        words_.insert(words_.end(), plan.started.begin(), plan.started.end());
        variables_ = code_variables(plan.environment, words_);
        for (const CodeVariable& variable : variables_) {
            if (variable.place == CodePlace::words) words_.push_back(variable.value);
        }
        names_ = names_in(words_);
        const std::string* path = plan.clean_environment ? find_variable(own, "PATH") : nullptr;
        if (path != nullptr) variables_.push_back({CodePlace::commands, *path});
    }

    void by_words() {
        add(plan_.directory, Look::always);
        if (!plan_.program.empty()) add(plan_.program.front(), Look::always);
        if (!plan_.python.empty()) add(plan_.python, Look::never);
        for (const std::string& name : names_) {
            if (!is_folder(name)) {
                add(name);
            } else {
                for (const char* main : {"/__main__.py", "/__main__.pyc"})
                    if (exists(name + main)) add(name + main);
            }
        }
        for (const std::string& word : program_words(plan_.program)) {
            if (!is_folder(word)) continue;
            add(word);
            add_modules_in(word, before_program_);
        }
    }

    void by_modules() {
        for (const std::string& module : modules_in(words_)) {
            add_module(".", module);
            for (const CodeVariable& variable : variables_) {
                if (variable.place != CodePlace::modules) continue;
                for (const std::string& folder : folders_in(variable)) add_module(folder, module);
            }
        }
    }

    void by_variables() {
        for (const CodeVariable& variable : variables_) {
            if (variable.place == CodePlace::words) continue;
            for (const std::string& folder : folders_in(variable)) {
                if (!is_folder(folder)) continue;
                const bool is_strict =
                    variable.place != CodePlace::commands && variable.place != CodePlace::home;
                add(folder, is_strict ? Look::where_open : Look::never);
                if (variable.place == CodePlace::home) add_home(folder);
                if (is_strict) add_in_folder(folder, variable.place);
            }
            if (variable.place == CodePlace::commands) add_commands(variable);
        }
    }

    std::vector<CodeFile> take() { return {files_.begin(), files_.end()}; }

  private:
    void add(const std::string& name, Look look = Look::where_open) { files_.insert({name, look}); }

    void add_entries(const std::string& folder, const std::function<bool(const std::string&)>& is_code) {
        std::error_code unknown;
        for (fs::directory_iterator entry(folder, unknown), end; !unknown && entry != end;
             entry.increment(unknown)) {
            if (++listed_ > kMaxListed)
                fail(Errc::limit_exceeded,
                     fmt::format("{}: other users may make names there, and with other such folders that are "
                                 "searched for code it has over {} entries, too many to be looked at",
                                 folder, kMaxListed));
            const std::string name = entry->path().filename().string();
            if (is_code(name)) add(folder + "/" + name);
        }
    }

    // What lies in `__pycache__` is taken for the modules beside it.
    void add_modules_in(const std::string& folder, const std::set<std::string>& modules) {
        for (const std::string& place : {folder, folder + "/__pycache__"}) {
            if (others_make_names_in(place))
                add_entries(place, [&](const std::string& entry) { return is_of_module(entry, modules); });
        }
    }

    void add_module(std::string folder, const std::string& module) {
        std::set<std::string> modules = before_program_;
        for (const std::string_view part : split_at(module, '.')) {
            modules.emplace(part);
            add_modules_in(folder, modules);
            folder.append("/").append(part);
            modules = {"__init__", "__main__", "__pycache__"};
        }
        add_modules_in(folder, modules);
    }

    void add_in_folder(const std::string& folder, CodePlace place) {
        if (!others_make_names_in(folder)) return;
        add_entries(folder, [&](const std::string& entry) {
            if (place == CodePlace::libraries) return may_be_library(entry) || names_.contains(entry);
            return place != CodePlace::modules || may_be_module(entry) ||
                   exists(folder + "/" + entry + "/__init__.py");
        });
    }

    void add_home(const std::string& folder) {
        for (const std::string_view name : kHomesCode) {
            const std::string file = fmt::format("{}/{}", folder, name);
            if (exists(file)) add(file);
        }
    }

    // Where nobody else may make names on PATH, it leads to nobody else's file.
    void add_commands(const CodeVariable& path) {
        const std::vector<std::string> folders = folders_in(path);
        const auto is_open = [](const std::string& folder) { return is_in_open_folder(folder + "/."); };
        if (std::ranges::none_of(folders, is_open)) return;
        std::set<std::string> commands(std::begin(kImpliedCommands), std::end(kImpliedCommands));
        for (const std::string& name : names_) {
            if (name.find('/') == name.npos) commands.insert(name);
        }
        for (const std::string& command : commands) {
            for (const std::string& candidate : exec_candidates(command, path.value)) {
                if (::access(candidate.c_str(), X_OK) != 0 || is_folder(candidate)) continue;
                add(candidate);
                break;
            }
        }
    }

    const StartPlan& plan_;
    std::vector<std::string> words_;
    std::set<std::string> before_program_;
    std::vector<CodeVariable> variables_;
    std::set<std::string> names_;
    std::set<CodeFile> files_;
    std::size_t listed_ = 0;
};

// Returns the users besides root, each once.
std::set<std::uint32_t> owners_but_root(const std::string& name) {
    std::set<std::uint32_t> owners;
    for (const uid_t owner : owners_of(name)) owners.insert(owner);
    owners.erase(0);
    return owners;
}

}  // namespace

std::vector<CodeFile> code_files(const StartPlan& plan, const Environment& own) {
    CodeSearch search(plan, own);
    search.by_words();
    search.by_modules();
    search.by_variables();
    return search.take();
}

FileOwners owners_here(const std::vector<CodeFile>& files) {
    FileOwners owners;
    std::size_t bytes = 0;
    const auto tell = [&](const std::string& name, const std::vector<std::uint32_t>& known) {
        std::vector<std::uint32_t> told;
        std::ranges::copy_if(owners_but_root(name), std::back_inserter(told), [&known](std::uint32_t owner) {
            return std::ranges::find(known, owner) == known.end();
        });
        if (told.empty() || !owners.emplace(name, told).second) return;
        bytes += name.size();
        if (bytes > kMaxOwnedNames)
            fail(Errc::limit_exceeded,
                 "the command's words name more files of other users than each host can be told");
    };
    std::set<std::string> folders;
    for (const CodeFile& file : files) folders.insert(folder_of_name(file.name));
    for (const std::string& folder : folders) {
        if (exists(folder)) tell(folder, {});
    }
    for (const CodeFile& file : files) {
        const auto known = owners.find(folder_of_name(file.name));
        if (exists(file.name) || is_in_open_folder(file.name))
            tell(file.name, known == owners.end() ? std::vector<std::uint32_t>() : known->second);
    }
    return owners;
}

std::vector<uid_t> owners_there(const FileOwners& owners, const std::string& name) {
    std::vector<uid_t> users;
    for (const std::string& told : {name, folder_of_name(name)}) {
        const auto found = owners.find(told);
        if (found != owners.end()) users.insert(users.end(), found->second.begin(), found->second.end());
    }
    return users;
}

std::optional<std::pair<std::string, uid_t>> foreign_file(const std::vector<CodeFile>& files,
                                                          const FileOwners& owners) {
    for (const auto& [name, look] : files) {
        if (look == Look::never || (look == Look::where_open && !is_in_open_folder(name))) continue;
        if (const auto owner = foreign_owner(name, owners_there(owners, name)))
            return std::pair(name, *owner);
    }
    return std::nullopt;
}

}  // namespace launch
}  // namespace ddprun
