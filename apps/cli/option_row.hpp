// An option as one row: what it is called, what --help says, which variables set it, and where its value
// goes. The rows of a program become CLI11's options (which cut the command line into words, and are what
// --help and the documentation are printed from, see printed.hpp) and then take their values, each from the
// strongest of the places that name it: the command line, DDPRUN_<NAME>, the row's own variables, the
// configuration file.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/cli/option_values.hpp"
#include "launcher/agent/option_origin.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace CLI {
class App;
}

namespace ddprun::inline app {

struct OptionRow {
    std::string names;  // "--tee,-t": errors call it by the first; without dashes: a word that must be there
    std::string metavar;  // empty: a flag; in brackets: the value may be left out
    // The first line is for --help, what follows a line break for the manual and the README only.
    std::string help;
    std::function<void(const std::string&)> set;  // throws BadValue, or UsageError with a text of its own
    std::string variables;                        // torchrun's, the stronger first, with commas between
    bool repeated = false;                        // every occurrence counts, not only the last
    bool is_torchruns = false;                    // torchrun has it, too, but no variable for it
};

struct OptionGroup {
    std::string heading;  // "": CLI11's own
    std::vector<OptionRow> rows;
};

// `target = grammar(text)`, for OptionRow::set.
template <class Target, class Parse>
std::function<void(const std::string&)> into(Target& target, Parse grammar) {
    return [&target, grammar = std::move(grammar)](const std::string& text) { target = grammar(text); };
}
inline std::function<void(const std::string&)> into(bool& target) { return into(target, yes_or_no); }
inline std::function<void(const std::string&)> into(std::string& target) { return into(target, any_text); }

// What errors call it, "--tee"; its first long name, "--tee"; and its own variable, "DDPRUN_TEE".
std::string first_name(const OptionRow& row);
std::string long_name(const OptionRow& row);
std::string long_name(std::string_view names);  // as OptionRow has them
std::string variable_of(const OptionRow& row);

// The option of the configuration file itself, for a program that has one.
OptionRow config_row();

// An option's long name -> what the user wrote for it: "--node_rank", or an abbreviation.
using TypedNames = std::map<std::string, std::string>;

// Adds the rows to `app`, --help, and the options by which the documentation is printed. `usage` is what
// follows the program's name; empty: CLI11's.
void add_rows(CLI::App& app, const std::vector<OptionGroup>& groups);
void add_standard_options(CLI::App& app, const std::string& version, const std::string& usage = "");

// After add_standard_options(): of the rows those only that were typed, or all where what is to be printed has them all.
// CLI11 compares each option with each other one, which was half of what ddprun computed before its first worker.
void add_typed_rows(CLI::App& app, const std::vector<OptionGroup>& groups, const TypedNames& typed);

// Lets CLI11 cut the words up. What is to be shown in place of work: --help, --version, the documentation.
// Throws UsageError.
std::optional<std::string> parse_words(CLI::App& app, const std::vector<OptionGroup>& groups,
                                       std::vector<std::string> words);

// What the command line of `app`, parsed, gives to the rows. Throws UsageError for a value.
void take_values(const CLI::App& app, const std::vector<OptionGroup>& groups);

// What one source says of an option: for one that may be repeated all of its texts.
struct ToldValue {
    std::vector<std::string> texts;
    OptionOrigin origin;
};

// All that say something of it, the strongest first, which is the one that counts.
struct ToldOption {
    std::string name;  // long_name()
    std::vector<ToldValue> told;
};

// The same with all sources; reads the file that --config names. Errors call what the command line names as it was
// typed. Returns what was said, in the order of the rows; options of which nobody says anything are not in it.
std::vector<ToldOption> take_values(const CLI::App& app, const std::vector<OptionGroup>& groups,
                                    const Environment& environment, const TypedNames& typed);

// Where the values are from that count.
OptionOrigins origins_of(const std::vector<ToldOption>& options);

// An error that begins with an option's long name, with that as it was typed, and with the place of the value at its end.
std::string as_said(const std::string& message, const TypedNames& typed, const OptionOrigins& origins);

// " (from PET_NNODES)": for the end of an error; empty where the user has the value before his eyes.
std::string origin_text(const OptionOrigin& origin);

}  // namespace ddprun::inline app
