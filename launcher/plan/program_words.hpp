// program_words and the functions around it tell what the words of a command run: behind env, wrappers and
// interpreters, as far as words tell. Pure; no file is looked at.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
inline namespace launch {

// Gives the name behind the last slash.
std::string_view without_folders(std::string_view name);

// Tells whether a program of that name, with or without a version and folders, is a Python.
bool is_python(std::string_view name);

// Tells whether a program of that name, without folders, is an interpreter, a shell or a wrapper.
bool starts_others(std::string_view name);

// Tells whether this word among a binary's arguments shows that the binary starts another program: an
// interpreter's name, or a file that ends in .py or .sh.
bool is_for_starter(const std::string& word);

// Gives what `env`, with options and variables, is to execute; empty where that is nothing, or cannot be
// read.
std::vector<std::string> behind_envs(std::vector<std::string> words);

// Tells whether the words start Python: `python3.11 …`, also behind `env`.
bool runs_python(std::vector<std::string> words);

// Gives the words of a command that say which program it is: its name; of Python and shells the script, the
// module, or the program of the text behind -c; of a wrapper what it starts. The latter counts where it is a
// path from this folder, a script, an interpreter or another wrapper. The other words are arguments.
std::vector<std::string> program_words(const std::vector<std::string>& words);

// Returns the one of program_words() by which people know the program: the script, the module, or the program
// of a shell's text; the interpreter where its text or its standard input is the program, and where a shell's
// text begins with what is no program. Empty: no word is a name.
std::string known_name(const std::vector<std::string>& program);

// Returns program_words() as nodes compare them: names without folders, a Python's without its version, too.
// A text and a module stay as they are.
std::vector<std::string> without_places(std::vector<std::string> program);

// ProgramInput says from where a command's program is read.
struct ProgramInput {
    std::string word;        // the command's name for it; empty: Python or a shell without a file reads stdin
    int descriptor = 0;      // of this process
    bool in_text = false;    // a command in a shell's text (bash -c) reads it, and may never be run
    bool is_unsure = false;  // the text has more than simple commands, of which one may read it
};

// Gives the descriptor that a word stands for: -, /dev/stdin, /dev/fd/63.
std::optional<int> descriptor_named(const std::string& word);

// Says from which descriptor a command's program is read. Nothing: the program is a file, or a module.
std::optional<ProgramInput> program_input(const std::vector<std::string>& words);

}  // namespace launch
}  // namespace ddprun
