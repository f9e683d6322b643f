#include "launcher/start/code_words.hpp"

#include <fmt/core.h>
#include <limits.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "launcher/cluster/family.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/text/split.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// What parts a text into words and names: in options, lists and the texts of shells.
constexpr std::string_view kBetweenNames = " \t\n=:,;&|()<>{}[]$'\"`\\";
// What ends a variable's value in the text of a shell.
constexpr std::string_view kValueEnds = " \t\n;&|()<>'\"`";

struct VariableRow {
    CodePlace place;
    std::string_view names;
};

// matches_pattern reads the names.
constexpr VariableRow kVariables[] = {
    {CodePlace::words,
     "LD_PRELOAD LD_AUDIT BASH_ENV ENV PYTHONSTARTUP PERL5OPT PERL5DB RUBYOPT NODE_OPTIONS CLASSPATH "
     "JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS LUA_INIT* LUA_PATH* LUA_CPATH* R_PROFILE "
     "R_PROFILE_USER R_ENVIRON R_ENVIRON_USER OPENSSL_CONF CUDA_INJECTION32_PATH CUDA_INJECTION64_PATH "
     "NVTX_INJECTION32_PATH NVTX_INJECTION64_PATH NCCL_NET_PLUGIN NCCL_TUNER_PLUGIN NCCL_PROFILER_PLUGIN"},
    {CodePlace::commands, "PATH"},
    {CodePlace::modules, "PYTHONPATH"},
    {CodePlace::libraries, "LD_LIBRARY_PATH"},
    {CodePlace::folders,
     "PYTHONHOME PYTHONUSERBASE PYTHONPYCACHEPREFIX PERL5LIB PERLLIB RUBYLIB GEM_HOME GEM_PATH NODE_PATH "
     "JULIA_LOAD_PATH JULIA_DEPOT_PATH R_HOME R_LIBS R_LIBS_SITE R_LIBS_USER TCLLIBPATH ZDOTDIR GCONV_PATH "
     "OPENSSL_ENGINES OPENSSL_MODULES VALGRIND_LIB"},
    {CodePlace::home, "HOME"},
};

// As Python 3.6 to 3.13 import them between a folder's place on the path and the module in it.
constexpr std::string_view kBeforeProgram[] = {
    "__main__",  "__init__", "__pycache__", "runpy",     "importlib",     "pkgutil",     "io",
    "os",        "abc",      "stat",        "posixpath", "genericpath",   "codecs",      "types",
    "warnings",  "weakref",  "contextlib",  "functools", "operator",      "keyword",     "reprlib",
    "heapq",     "enum",     "re",          "copyreg",   "typing",        "collections", "_collections_abc",
    "sre_parse", "locale",   "_weakrefset", "encodings", "sre_constants", "sre_compile", "zipimport"};

// In these the loader looks first.
constexpr std::string_view kHardwaresLibraries =
    "glibc-hwcaps tls x86_64 haswell avx512_1 xeon_phi aarch64 atomics";

std::optional<CodePlace> code_place_of(std::string_view name) {
    for (const VariableRow& row : kVariables)
        if (matches_pattern(name, row.names)) return row.place;
    return std::nullopt;
}

// Adds what NAME=VALUE in a word sets: a value that goes to the word's end, or to its own in a text.
void add_set_in(std::string_view word, std::vector<CodeVariable>& variables) {
    for (auto equals = word.find('='); equals != word.npos; equals = word.find('=', equals + 1)) {
        const auto before = word.substr(0, equals).find_last_of(kBetweenNames);
        const auto begin = before == word.npos ? 0 : before + 1;
        const auto place = code_place_of(word.substr(begin, equals - begin));
        if (!place) continue;
        std::string_view value = word.substr(equals + 1);
        variables.push_back({*place, std::string(value)});
        value.remove_prefix(std::min(value.find_first_not_of("'\""), value.size()));
        value = value.substr(0, value.find_first_of(kValueEnds));
        if (value != variables.back().value) variables.push_back({*place, std::string(value)});
    }
}

// Returns what an option of one letter, also behind others, has behind it in its word; nothing: it is no -m.
std::optional<std::string_view> behind_module_option(std::string_view part) {
    constexpr std::string_view kPythonsLetters = "bBdEhiIOPqRsSuvVx";
    if (!part.starts_with('-')) return std::nullopt;
    const auto end = part.find_first_not_of(kPythonsLetters, 1);
    if (end == part.npos || part[end] != 'm') return std::nullopt;
    return part.substr(end + 1);
}

}  // namespace

std::set<std::string> names_in(const std::vector<std::string>& words) {
    std::set<std::string> names;
    const auto add = [&names](std::string_view name) {
        if (name.empty() || name.size() >= PATH_MAX) return;
        names.emplace(name);
        if (names.size() > kMaxNamedFiles)
            fail(Errc::limit_exceeded,
                 fmt::format(
                     "the command has over {} words and parts of words, and whose files they name is to "
                     "be asked on each host; give the program its arguments in a file",
                     kMaxNamedFiles));
    };
    for (const std::string_view word : words) {
        // "--wrap=0:valgrind --log=x './tool'"; a name may have such letters in it, too.
        for (std::string_view rest = word; !rest.empty();) {
            add(rest);
            const auto end = std::min(rest.find_first_of(kBetweenNames), rest.size());
            const std::string_view part = rest.substr(0, end);
            add(part);
            // "-f/tmp/rules", and what is left of "${X:-/tmp/rules}".
            if (part.starts_with('-')) add(part.substr(std::min(part.find('/'), part.size())));
            rest.remove_prefix(std::min(end + 1, rest.size()));
        }
    }
    return names;
}

std::vector<std::string> modules_in(const std::vector<std::string>& words) {
    std::vector<std::string> modules;
    bool is_next = false;
    for (std::string_view rest : words) {
        while (!rest.empty()) {
            const auto end = std::min(rest.find_first_of(kBetweenNames), rest.size());
            const std::string_view part = rest.substr(0, end);
            rest.remove_prefix(std::min(end + 1, rest.size()));
            if (part.empty()) continue;
            const auto behind = behind_module_option(part);
            const std::string_view module = behind ? *behind : part;
            if ((is_next || behind) && !module.empty() && module.find('/') == module.npos)
                modules.emplace_back(module);
            is_next = behind && behind->empty();
        }
    }
    return modules;
}

std::vector<CodeVariable> code_variables(const Environment& environment,
                                         const std::vector<std::string>& words) {
    std::vector<CodeVariable> variables;
    for (const auto& [name, value] : environment) {
        const auto place = value.empty() ? std::nullopt : code_place_of(name);
        if (place) variables.push_back({*place, value});
    }
    for (const std::string& word : words) add_set_in(word, variables);
    return variables;
}

std::vector<std::string> folders_in(const CodeVariable& variable) {
    std::vector<std::string> folders;
    for (const std::string_view part : split_at(variable.value, ':')) {
        for (const std::string_view folder :
             split_at(part, variable.place == CodePlace::libraries ? ';' : ':'))
            folders.emplace_back(folder.empty() ? "." : folder);
    }
    return folders;
}

bool is_of_module(std::string_view entry, const std::set<std::string>& modules) {
    return modules.contains(std::string(entry.substr(0, entry.find('.'))));
}

std::set<std::string> modules_before_program() {
    return {std::begin(kBeforeProgram), std::end(kBeforeProgram)};
}

bool may_be_module(std::string_view entry) {
    return entry == "__pycache__" || entry.ends_with(".py") || entry.ends_with(".pyc") ||
           entry.ends_with(".so");
}

bool may_be_library(std::string_view entry) {
    return entry.find(".so") != entry.npos || matches_pattern(entry, kHardwaresLibraries);
}

}  // namespace launch
}  // namespace ddprun
